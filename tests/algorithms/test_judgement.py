"""The judgement: its level on independent columns, its agreement with a definition, and what a user sets is obeyed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privfcd import GES, NOTEARS, PC, FedBNSL, Moments, PrivateTable
from privfcd.accounting import Budget
from privfcd.algorithms.judgement import critical_value, null_statistics
from privfcd.mechanisms import SimulatedNoise
from privfcd.moments import NoiseTerm

Array = np.ndarray[Any, Any]


def moments_of(rows: Array, sd: float = 0.0, seed: int = 0) -> Moments:
    columns = tuple(f"x{j}" for j in range(rows.shape[1]))
    term = NoiseTerm(sd)
    noise = term.sample(np.random.default_rng(seed), rows.shape[1]) if sd else 0.0
    matrix = np.cov(rows.T, bias=True) + noise
    return Moments((matrix + matrix.T) / 2, len(rows), columns, (term,) if sd else ())


@pytest.mark.parametrize("sd", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("law", ["normal", "binary", "uniform"])
def test_independent_columns_are_taken_for_noise_at_the_stated_level(law: str, sd: float) -> None:
    """At most 34 of 400 runs may reject at a level of 5 %: a binomial bound at 0.2 %."""
    rejected = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(400, 6)) if law == "normal" else rng.random((400, 6))
        found = null_statistics(moments_of((rows < 0.4) * 1.0 if law == "binary" else rows, sd, seed))
        rejected += bool((found > critical_value(len(found))).any())
    assert rejected <= 34


def test_statistics_are_covariances_over_their_standard_deviations() -> None:
    rows = np.random.default_rng(1).normal(size=(300, 3)) * [1.0, 5.0, 0.2]
    given, sd = moments_of(rows, 0.1), 0.1
    matrix, expected = given.matrix, []
    for i, j in ((0, 1), (0, 2), (1, 2)):
        sampling = max(matrix[i, i], 0) * max(matrix[j, j], 0) / 300
        expected.append(abs(matrix[i, j]) / np.sqrt(sampling + sd**2 / 2))
    np.testing.assert_allclose(null_statistics(given), expected)


@pytest.mark.parametrize("learner", [GES, PC, NOTEARS, FedBNSL])
def test_private_runs_on_independent_columns_state_nothing(learner: Any) -> None:
    """Nine columns, 3 x 150 rows, epsilon = 1: 16 to 36 edges without the test."""
    stated = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        tables = [
            PrivateTable(
                rng.normal(size=(150, 9)), name=f"p{k}", budget=Budget(1, 1e-6), bounds=4, noise=SimulatedNoise(seed)
            )
            for k in range(3)
        ]
        model = learner(release="covariance").fit(tables)
        stated += model.judgement_.stated
        assert model.judgement_.stated == len({frozenset(edge) for edge in model.causal_graph_.edges})
        assert bool(np.any(model.adjacency_matrix_)) == (model.judgement_.stated > 0)
    assert stated == 0


def test_what_is_set_is_obeyed_and_named() -> None:
    rows = np.random.default_rng(3).normal(size=(200, 6))
    quiet = moments_of(rows)
    assert GES().fit(quiet).judgement_.stated == 0
    loose = GES(penalty=0.01).fit(quiet)
    assert loose.judgement_.stated > 0 and "penalty=0.01" in loose.judgement_.text and not loose.judgement_.edges
    textbook = PC(alpha=0.5, null_level=None).fit(quiet)
    assert textbook.judgement_.stated > 0 and not textbook.judgement_.edges


def test_strong_edges_stand_clear_and_weak_ones_do_not() -> None:
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(2000, 4))
    rows[:, 1] += rows[:, 0]
    strong = GES().fit(moments_of(rows)).judgement_
    assert {frozenset(edge) for edge in strong.edges} == {frozenset(("x0", "x1"))} and strong.expected_false == 0.05
    loose = GES(penalty=0.01).fit(moments_of(rows)).judgement_
    assert loose.stated > len(loose.edges) >= 1 and "Only" in loose.text
