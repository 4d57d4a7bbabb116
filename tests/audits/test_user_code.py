"""Audits of functions of a table and a seed: right and wrong ones, bad outputs, workers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privfcd.accounting import gaussian_event
from privfcd.audits import Claim, audit_function
from privfcd.audits.user_code import run_seeds
from privfcd.errors import InvalidParameter

ZERO, ONE = np.zeros(3), np.array([0.0, 0.0, 1.0])


def noisy_sum(table: np.ndarray, seed: int) -> float:
    return float(table.sum() + np.random.default_rng(seed).laplace())


def noisy_sums(table: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    return np.array([noisy_sum(table, int(seed)) for seed in seeds])


def randomised_response(table: np.ndarray, seed: int) -> str:
    lies = np.random.default_rng(seed).random() < 0.25
    return "yes" if (table.sum() > 0) != lies else "no"


def gaussian_pair(table: np.ndarray, seed: int) -> np.ndarray:
    return table[1:] + np.random.default_rng(seed).normal(size=2)


def leaks_its_shape(table: np.ndarray, seed: int) -> tuple[float, ...]:
    return (1.0,) * (1 + int(table.sum() + np.random.default_rng(seed).normal() > 0.5))


def negated(output: float) -> float:
    return -output


def test_a_right_function_is_consistent_and_half_of_its_claim_is_refuted() -> None:
    report = audit_function(noisy_sum, ZERO, ONE, Claim(epsilon=1.0), 20_000)
    assert report.verdict == "consistent" and 0.9 < report.bound <= 1.0
    assert report.subject == "noisy_sum" and "seeds made from 0" in report.noise and report.runs == 20_000
    assert np.array_equal(report.witness.pair[0], ZERO) and np.array_equal(report.witness.pair[1], ONE)
    assert audit_function(noisy_sum, ZERO, ONE, Claim(epsilon=0.5), 2_000).verdict == "violated"


def test_words_arrays_and_shapes_are_understood() -> None:
    truth = float(np.log(3))  # 0.75 / 0.25
    report = audit_function(randomised_response, ZERO, ONE, Claim(epsilon=truth), 20_000)
    assert report.verdict == "consistent" and 0.95 * truth < report.bound <= truth
    assert audit_function(randomised_response, ZERO, ONE, Claim(epsilon=1.0), 10_000).verdict == "violated"
    right = audit_function(gaussian_pair, ZERO, ONE, gaussian_event(1.0, 1.0), 10_000)
    assert right.verdict == "consistent" and right.mu_bound is not None and 0.85 < right.mu_bound <= 1.0
    assert audit_function(gaussian_pair, ZERO, ONE, Claim(mu=0.7), 5_000).verdict == "violated"
    assert audit_function(leaks_its_shape, ZERO, ONE, Claim(epsilon=0.3), 5_000).verdict == "violated"


def test_vectorised_statistics_and_workers_agree_with_one_run_after_the_other() -> None:
    claim = Claim(epsilon=1.0)
    plain = audit_function(noisy_sum, ZERO, ONE, claim, 3_000, seed=4)
    assert audit_function(noisy_sums, ZERO, ONE, claim, 3_000, seed=4, vectorised=True).bound == plain.bound
    assert audit_function(noisy_sum, ZERO, ONE, claim, 3_000, seed=4, workers=2) == plain
    assert audit_function(noisy_sum, ZERO, ONE, claim, 3_000, seed=4, statistic=float).bound == plain.bound
    mirrored = audit_function(noisy_sum, ZERO, ONE, claim, 3_000, seed=4, statistic=negated)
    assert mirrored.bound == pytest.approx(plain.bound, abs=0.1)
    assert audit_function(noisy_sum, ZERO, ONE, claim, 3_000, seed=5).bound != plain.bound


def test_a_seed_that_is_ignored_is_caught() -> None:
    def fixed(table: np.ndarray, seed: int) -> float:
        return noisy_sum(table, 7)

    assert audit_function(fixed, ZERO, ONE, Claim(epsilon=1.0), 500).verdict == "violated"


@given(st.integers(0, 2**40), st.integers(0, 10**6), st.integers(1, 2000))
def test_seeds_are_distinct_and_do_not_depend_on_how_they_are_dealt(seed: int, start: int, count: int) -> None:
    both = [run_seeds(seed, world, start, count) for world in (0, 1)]
    assert len(np.unique(np.concatenate(both))) == 2 * count
    assert np.concatenate(both).min() >= 0 and np.concatenate(both).max() < 2**32
    assert run_seeds(seed, 1, start + 1, count)[0] == (both[1][1] if count > 1 else run_seeds(seed, 1, start + 1, 1)[0])


def test_seeds_look_uniform() -> None:
    from scipy import stats

    seeds = run_seeds(3, 0, 0, 100_000)
    assert stats.kstest(seeds / 2**32, "uniform").pvalue > 1e-6
    assert abs(np.corrcoef(seeds[:-1], seeds[1:])[0, 1]) < 0.02


def test_progress_counts_the_runs_of_both_tables() -> None:
    seen: list[tuple[int, int]] = []
    audit_function(noisy_sum, ZERO, ONE, Claim(epsilon=1.0), 1_000, on_progress=lambda *both: seen.append(both))
    assert seen[-1] == (2000, 2000) and [done for done, _ in seen] == sorted(done for done, _ in seen)


def sometimes(bad: Any) -> Any:
    def function(table: np.ndarray, seed: int) -> Any:
        return bad if seed % 40 == 0 else 1.5

    return function


def test_bad_outputs_are_named_with_the_seed_that_repeats_them() -> None:
    claim = Claim(epsilon=1.0)
    for bad, words in ((np.nan, "finite"), (np.inf, "finite"), (np.zeros(2), "one shape"), (None, "one shape")):
        function = sometimes(bad)
        with pytest.raises(InvalidParameter, match=words) as caught:
            audit_function(function, ZERO, ONE, claim, 2_000)
        seeds = [int(word) for word in re.findall(r"seed (\d+)", str(caught.value))]
        assert any(function(ZERO, seed) is bad for seed in seeds) and "on table" in str(caught.value)

    def breaks(table: np.ndarray, seed: int) -> float:
        raise KeyError("dose")

    with pytest.raises(InvalidParameter, match=r"breaks failed on table with seed \d+: KeyError: 'dose'"):
        audit_function(breaks, ZERO, ONE, claim, 100)
    with pytest.raises(InvalidParameter, match="statistic failed on the output"):
        audit_function(randomised_response, ZERO, ONE, claim, 100, statistic=float)
    with pytest.raises(InvalidParameter, match=r"one output for each of \d+ seeds, got 3"):
        audit_function(lambda table, seeds: np.zeros(3), ZERO, ONE, claim, 100, vectorised=True)


def test_the_table_cannot_be_changed() -> None:
    def careless(table: np.ndarray, seed: int) -> float:
        table += 1
        return float(table.sum())

    with pytest.raises(InvalidParameter, match="read-only"):
        audit_function(careless, ZERO, ONE, Claim(epsilon=1.0), 100)
    assert not ZERO.any()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"function": 3}, "function must"),
        ({"runs": 10}, "runs must"),
        ({"runs": 2**31}, "runs must"),
        ({"workers": 0}, "workers must"),
        ({"statistic": 3}, "statistic must"),
        ({"seed": -1}, "seed must"),
        ({"confidence": 1.0}, "confidence must"),
        ({"claim": 1.0}, "claim must"),
        ({"function": lambda table, seed: 1.0, "workers": 2}, "workers must be 1"),
    ],
)
def test_bad_parameters_are_named(changes: dict[str, Any], named: str) -> None:
    arguments = {"function": noisy_sum, "table": ZERO, "neighbour": ONE, "claim": Claim(epsilon=1.0), "runs": 100}
    with pytest.raises(InvalidParameter, match=named):
        audit_function(**{**arguments, **changes})


def test_false_alarms_stay_within_the_level() -> None:
    """200 audits of a right function at level 0.05: the count is binomial, or below."""
    from scipy.stats import binom

    def coin(table: np.ndarray, seeds: np.ndarray) -> np.ndarray:
        u = np.random.default_rng(seeds).random(len(seeds))
        return (u < (0.75 if table.sum() > 0 else 0.25)).astype(float)

    alarms = sum(
        audit_function(coin, ZERO, ONE, Claim(epsilon=float(np.log(3))), 500, seed=s, vectorised=True).verdict
        == "violated"
        for s in range(200)
    )
    assert alarms <= binom.ppf(1 - 1e-6, 200, 0.05)
