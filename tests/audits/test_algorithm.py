"""Audits of whole algorithms: what they find, what they leave alone, and what they refuse."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from privfcd.accounting import ADD_OR_REMOVE_ONE, Budget, compose, gaussian_event, selection_event
from privfcd.algorithms.fed_sparse import FedSparseBNSL
from privfcd.algorithms.fed_sparse.greedy import GreedyDescent
from privfcd.audits import Claim, Descent, audit_algorithm, mu_bound, replay_scores
from privfcd.audits.algorithm import accountants_epsilons, gaussian_mu
from privfcd.audits.canaries import worst_canary
from privfcd.audits.subjects import offset_pattern
from privfcd.data.private import PrivateTable
from privfcd.data.queries import ClippedMean
from privfcd.data.second_moments import table_moments
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import Gaussian, Laplace, SecureNoise, SimulatedNoise

GATE = 1e-6


def descent(updates: int, z: float, d: int = 2) -> Descent:
    return Descent(GreedyDescent((1e4,) * d, 1.0, 0.1, 1.0, z), updates, 10)


def plain_table(d: int = 2) -> PrivateTable:
    return PrivateTable(np.zeros((10, d)), bounds=50.0)


def mean(tables: list[PrivateTable]) -> Any:
    query = ClippedMean((1.0, 1.0))
    return tables[0].release(query, Gaussian(query.sensitivity(tables[0].n_rows, tables[0].relation)))


def half_mean(tables: list[PrivateTable]) -> Any:
    """Charges for noise of scale s and adds s / 3."""
    table = tables[0]
    query = ClippedMean((1.0, 1.0))
    scale = query.sensitivity(table.n_rows)
    table.ledger.charge(gaussian_event(1.0, 1.0))
    return table.noise.stream(0).gaussian(query.evaluate(table._rows), scale / 3)


def mean_table(**more: Any) -> PrivateTable:
    return PrivateTable(np.zeros((10, 2)), bounds=1.0, budget=Budget(rho=2.0), **more)


def test_likelihood_ratios_average_to_one() -> None:
    """E exp(ratio) = 1 on table 0, for an adaptive run of selections and updates: the terms are the right ones."""
    zero, one = replay_scores(descent(4, 3.0), [plain_table()], 300, seed=5)
    for ratios in (zero, -one):
        weights = np.exp(ratios)
        assert abs(weights.mean() - 1) < 5 * weights.std() / math.sqrt(len(weights))


def test_the_descent_leaks_what_theory_allows() -> None:
    subject = descent(6, 1.5)
    scores = replay_scores(subject, [plain_table()], 600, seed=1)
    mu = gaussian_mu(subject.event())
    assert mu is not None
    assert 0.8 < mu_bound(*scores).value / mu <= 1.0
    # the whole shift, not only what 600 runs certify: mean and variance of a Gaussian pair with this mu
    shift = scores[1].mean() - scores[0].mean()
    assert shift == pytest.approx(mu**2, rel=0.15)


def test_without_offset_the_selection_would_not_leak() -> None:
    """Absolute values of entries that turn from -C/n into C/n are equal: the updates alone are seen."""
    assert np.abs(offset_pattern(2)).tolist() == [[0, 1], [1, 0]]
    pattern = offset_pattern(4)
    assert pattern.sum() == 0 and (pattern == -pattern.T).all() and np.abs(pattern).sum() == 8


def test_a_right_descent_passes_and_a_claim_too_small_is_refuted() -> None:
    right = audit_algorithm(descent(4, 2.0), [plain_table()], runs=150, alpha=GATE)
    assert right.verdict != "violated"
    wrong = audit_algorithm(descent(8, 1.0), [plain_table()], runs=150, claim=Claim(mu=1.0), alpha=GATE)
    assert wrong.verdict == "violated" and wrong.mu_bound is not None and wrong.mu_bound > 1.0


def test_the_party_is_asked_by_a_curious_coordinator() -> None:
    estimator = FedSparseBNSL(
        rounds=2, updates=3, clip=1.0, smoothness=(1e4, 1e4), noise_multiplier=1.0, step=1.0, center=False
    )
    table = PrivateTable(np.zeros((500, 2)), bounds=50.0, budget=Budget(rho=20.0))
    zero, one = replay_scores(estimator, [table], 80, seed=2)
    event = compose([(selection_event(1.0, 1.0), 6), (gaussian_event(1.0, 1.0), 6)])
    mu = gaussian_mu(event)
    assert mu is not None
    # at a range of 2 a selection's loss has a mean of tanh(1/2) instead of 1/2 (central limit), hence 0.96
    assert one.mean() - zero.mean() == pytest.approx(0.96 * mu**2, rel=0.2)
    honest = replay_scores(estimator, [table], 40, seed=2, coordinator="honest")
    assert honest[1].mean() - honest[0].mean() < 0.8 * mu**2
    report = audit_algorithm(estimator, [table], runs=50, alpha=GATE)
    assert report.verdict != "violated" and "curious coordinator" in str(report)
    assert 6.0 <= report.rho_charged < 6.5
    assert set(report.accountants) == {"tight", "zcdp", "zcdp-loose", "gdp"}
    assert report.accountants["tight"] < report.accountants["zcdp"] < report.accountants["zcdp-loose"]
    assert table.ledger.spent() == PrivateTable(np.zeros((2, 2)), budget=Budget(rho=20.0)).ledger.spent()


def test_setup_releases_are_part_of_the_audit() -> None:
    estimator = FedSparseBNSL(rounds=1, updates=1, center=True)
    table = PrivateTable(np.zeros((50, 2)), bounds=5.0, budget=Budget(rho=1.0))
    report = audit_algorithm(estimator, [table], runs=50, alpha=GATE)
    assert report.verdict != "violated"
    assert report.rho_charged == pytest.approx(1.0, rel=1e-6)
    assert report.rho_bound is not None and report.rho_bound <= 1.0


def release_moments_of(tables: list[PrivateTable]) -> Any:
    return table_moments(tables[0], epsilon=8.0, delta=1e-5)


def test_the_covariance_release() -> None:
    table = PrivateTable(np.zeros((10, 2)), bounds=5.0, budget=Budget(epsilon=8.0, delta=1e-5))
    report = audit_algorithm(release_moments_of, [table], runs=400, alpha=0.05)
    assert report.verdict != "violated"
    assert report.mu_claim is not None and report.mu_bound is not None
    assert 0.5 < report.mu_bound / report.mu_claim <= 1.0
    assert report.accountants["gdp"] == pytest.approx(8.0, rel=1e-6)


@pytest.mark.parametrize("method", ["replay", "black-box"])
def test_functions_of_ones_own(method: str) -> None:
    right = audit_algorithm(mean, [mean_table()], runs=400, method=method, alpha=GATE)
    assert right.verdict != "violated"
    wrong = audit_algorithm(half_mean, [mean_table()], runs=400, method=method, alpha=GATE)
    assert wrong.verdict == "violated", wrong


def test_what_is_not_noise_shows_in_what_is_released() -> None:
    def leak(tables: list[PrivateTable]) -> Any:
        return mean(tables), float(tables[0]._rows[0, 1])

    for method in ("replay", "black-box"):
        assert audit_algorithm(leak, [mean_table()], runs=100, method=method, alpha=GATE).verdict == "violated"


def test_refusals_are_answers_too() -> None:
    def moody(tables: list[PrivateTable]) -> Any:
        if tables[0]._rows[0, 1] < 0:
            raise InvalidParameter("too small")
        return mean(tables)

    for method in ("replay", "black-box"):
        assert audit_algorithm(moody, [mean_table()], runs=100, method=method, alpha=GATE).verdict == "violated"


def test_added_records_and_other_parties_and_noise() -> None:
    added = mean_table(relation=ADD_OR_REMOVE_ONE, declared_rows=10)
    report = audit_algorithm(mean, [added], runs=300)
    assert report.verdict != "violated" and report.mu_bound is not None and report.mu_bound > 0.2
    second = audit_algorithm(
        lambda tables: [mean([one]) for one in tables], [mean_table(), mean_table()], party=1, runs=200, alpha=GATE
    )
    assert second.verdict != "violated" and second.mu_claim == pytest.approx(1.0, rel=1e-6)
    secure = audit_algorithm(mean, [mean_table()], runs=60, noise=SecureNoise(), alpha=GATE)
    assert "secure" in secure.noise and secure.verdict != "violated"


def test_rows_are_not_read(arm: Callable[[PrivateTable], PrivateTable]) -> None:
    table = arm(mean_table())
    report = audit_algorithm(mean, [table], runs=50, alpha=GATE, background=[np.full((10, 2), 0.3)])
    assert report.verdict != "violated"


def test_workers_change_nothing_and_progress_is_told() -> None:
    seen: list[tuple[int, int]] = []
    table = mean_table()  # the data set's name is part of its noise's keys
    one = audit_algorithm(mean, [table], runs=150, on_progress=lambda done, total: seen.append((done, total)))
    two = audit_algorithm(mean, [table], runs=150, workers=2)
    assert one == two
    assert seen[-1] == (300, 300) and len(seen) == 4


def test_the_report_in_words_and_as_json() -> None:
    report = audit_algorithm(mean, [mean_table()], runs=60)
    text = str(report)
    assert "accountants epsilon" in text and "zCDP        rho >=" in text and "many runs, replay" in text
    data = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert data["rho_charged"] == pytest.approx(0.5, rel=1e-6) and "tight" in data["accountants"]
    assert data["verdict"] == report.verdict


def test_pure_releases_have_no_mu() -> None:
    def laplace(tables: list[PrivateTable]) -> Any:
        query = ClippedMean((1.0,))
        return tables[0].release(_L1(query), Laplace(query.sensitivity(tables[0].n_rows)))

    class _L1:
        name, norm, kind = "mean of one column", "l1", "numbers"

        def __init__(self, inner: ClippedMean) -> None:
            self._inner = inner

        def check(self, d: int) -> None:
            assert d == 2

        def evaluate(self, rows: np.ndarray, n: int | None = None) -> np.ndarray:
            return self._inner.evaluate(rows[:, 1:], n)

        def sensitivity(self, n: int, relation: Any) -> float:
            return self._inner.sensitivity(n, relation)

    report = audit_algorithm(laplace, [mean_table()], runs=300, delta=1e-5, alpha=GATE)
    assert report.mu_bound is None and report.mu_claim is None and report.verdict != "violated"
    assert "gdp" not in report.accountants


def test_canaries_and_their_references() -> None:
    assert worst_canary((1.0, 2.0, 1.0, 2.0), 4)[1].tolist() == [1.0, -2.0, 1.0, -2.0]
    assert worst_canary(None, 3)[0].tolist() == [50.0] * 3
    assert np.dot(*worst_canary(None, 6)) == 0
    event = compose([(selection_event(1.0, 2.0), 3), (gaussian_event(1.0, 2.0), 5)])
    assert gaussian_mu(event) == pytest.approx(math.sqrt(8) / 2)
    assert accountants_epsilons(event, 1e-5)["gdp"] <= accountants_epsilons(event, 1e-5)["tight"] * 1.05


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"runs": 10}, "runs"),
        ({"method": "white"}, "method"),
        ({"coordinator": "evil"}, "coordinator"),
        ({"party": 3}, "party"),
        ({"canary": (1.0,)}, "canary"),
        ({"canary": ([1.0, 2.0], [1.0, math.inf])}, "canary"),
        ({"background": []}, "background"),
        ({"background": [np.zeros((3, 2))]}, "background"),
        ({"claim": "epsilon = 1"}, "claim"),
        ({"workers": 0}, "workers"),
        ({"alpha": 2.0}, "alpha"),
        ({"seed": -1}, "seed"),
        ({"delta": 1.5}, "delta"),
    ],
)
def test_bad_input_is_refused(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidParameter, match=match):
        audit_algorithm(mean, [mean_table()], **{"runs": 60, **arguments})


def test_subjects_and_tables_are_checked() -> None:
    with pytest.raises(InvalidParameter, match="subject"):
        audit_algorithm(3, [mean_table()])
    with pytest.raises(InvalidParameter, match="tables"):
        audit_algorithm(mean, mean_table())  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="non-private"):
        audit_algorithm(lambda tables: tables[0].ledger.charge(_open()) and 1.0, [PrivateTable(np.zeros((5, 2)))])
    assert SimulatedNoise(0).label


def _open() -> Any:
    from dp_accounting import NonPrivateDpEvent

    return NonPrivateDpEvent()
