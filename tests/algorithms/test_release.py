"""Release of moments: what comes out, from whom, with which noise, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from privfcd.accounting import ADD_OR_REMOVE_ONE, Budget
from privfcd.algorithms.release import MomentsRelease, release_moments
from privfcd.algorithms.release.plan import COVARIANCE, DIFFERENCES, HISTOGRAM, MEAN, SCALES
from privfcd.data.private import PrivateTable
from privfcd.errors import BudgetExceeded, InvalidParameter, InvalidTable
from privfcd.mechanisms import SimulatedNoise
from privfcd.moments import pooled

Tables = Callable[..., list[PrivateTable]]
LARGE = Budget(rho=1e6)
SMALL = Budget(epsilon=1, delta=1e-6)


def second_moments(rows: np.ndarray) -> np.ndarray:
    return rows.T @ rows / len(rows)


def test_open_tables_give_exact_moments(tables: Tables, parts: list[np.ndarray]) -> None:
    release = release_moments(tables(), center=False)
    whole = np.vstack(parts)
    np.testing.assert_allclose(release.moments.matrix, second_moments(whole), rtol=1e-12)
    assert release.moments.exact and release.moments.rows == len(whole) and release.rule["method"] == "exact"
    assert all(math.isinf(report.epsilon) for report in release.privacy_report)
    assert release.bytes_exchanged == 3 * (8 + 11 * 8), "the norm, and the upper triangle with its scale"
    for centred in (release_moments(tables()), release_moments(tables(), center=True)):
        within = sum(len(part) * np.cov(part.T, bias=True) for part in parts) / len(whole)
        np.testing.assert_allclose(centred.moments.matrix, within, rtol=1e-10)
    np.testing.assert_allclose(centred.moments.mean, whole.mean(axis=0), rtol=1e-10)
    moved = release_moments(tables(), offset=[1.0, 0.0, 0.0, -2.0])
    np.testing.assert_allclose(moved.moments.matrix, second_moments(whole - [1.0, 0, 0, -2.0]), rtol=1e-10)


@pytest.mark.parametrize("method", ["covariance", "preconditioned"])
@pytest.mark.parametrize("sum", ["per-party", "trusted"])
def test_with_little_noise_private_moments_are_the_exact_ones(
    tables: Tables, many: list[np.ndarray], method: str, sum: str
) -> None:
    release = release_moments(tables(many, budget=LARGE, bounds=60.0), method=method, sum=sum, center=False)
    exact = second_moments(np.vstack(many))
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    tolerance = 5e-3
    assert (np.abs(release.moments.matrix - exact) / scale).max() < tolerance
    assert len(release.parts) == (1 if sum == "trusted" else 2) and len(release.privacy_report) == 2
    np.testing.assert_array_equal(pooled(release.parts).matrix, release.moments.matrix)
    assert release.rule["method"] == method and math.isclose(math.fsum(release.rule["shares of mu²"].values()), 1)


@pytest.mark.parametrize(
    ("arguments", "labels"),
    [
        ({"method": "covariance", "row_norm": 9.0, "center": False}, [COVARIANCE]),
        ({"method": "covariance", "center": False}, [HISTOGRAM, COVARIANCE]),
        ({"method": "covariance"}, [HISTOGRAM, MEAN, COVARIANCE]),
        ({"method": "covariance", "row_norm": 9.0, "center": True}, [HISTOGRAM, MEAN, COVARIANCE]),
        ({"method": "preconditioned", "shares": [0.5, 0.5], "center": False}, [SCALES, "round 1", "round 2"]),
        ({"method": "preconditioned", "shares": [1.0]}, [DIFFERENCES, "round 1"]),
        ({"method": "preconditioned", "shares": [1.0], "center": True}, [DIFFERENCES, "round 1"]),
        ({"method": "preconditioned", "shares": [1.0], "center": "mean"}, [HISTOGRAM, SCALES, MEAN, "round 1"]),
    ],
)
def test_what_is_paid_for(tables: Tables, many: list[np.ndarray], arguments: dict[str, Any], labels: list[str]) -> None:
    made = tables(many, budget=SMALL)
    release = release_moments(made, **arguments)
    for table, report in zip(made, release.privacy_report, strict=True):
        assert [part.label.removeprefix("second moments, ") for part in report.parts] == [
            label.removeprefix("second moments, ") for label in labels
        ]
        assert all(part.drawn == part.planned == 1 for part in report.parts)
        assert report.epsilon <= 1 and report.epsilon > 0.999999, "all of the budget is used"
        kinds = [entry.kind for entry in table.ledger.entries()]
        assert kinds.count("reserve") == 1 and "charge" not in kinds, "one charge for the whole release"
        assert table.ledger.left() is None


def test_declared_bounds_need_no_histogram(tables: Tables) -> None:
    release = release_moments(
        tables(budget=SMALL, bounds=[[3.0, 4.0, 12.0, 84.0]] * 3), method="covariance", center=False
    )
    assert release.rule["row norm"] == pytest.approx(85.0)
    assert list(release.rule["shares of mu²"]) == [COVARIANCE]


def test_moments_that_stay_at_the_parties(tables: Tables, many: list[np.ndarray]) -> None:
    release = release_moments(tables(many, budget=[SMALL, LARGE]), send=False)
    assert release.bytes_exchanged == 0 and release.rule["method"] == "covariance" and len(release.parts) == 2
    assert not release.parts[0].exact and release.moments.rows == 10_000
    exact = release_moments(tables(many), send=False, center=False)
    np.testing.assert_allclose(exact.parts[1].matrix, second_moments(many[1]), rtol=1e-12)
    apart = release_moments(tables(many, budget=LARGE), send=False, center=True)
    np.testing.assert_allclose(apart.parts[0].matrix, np.cov(many[0].T, bias=True), rtol=0.1, atol=0.1)
    within = np.mean([part.matrix for part in apart.parts], axis=0)
    np.testing.assert_allclose(apart.moments.matrix, within, rtol=1e-12)


def test_a_mean_far_from_zero_is_taken_off(tables: Tables, many: list[np.ndarray]) -> None:
    far = [part + np.array([100.0, -50.0, 0.0, 7.0]) for part in many]
    for method in ("covariance", "preconditioned"):
        release = release_moments(tables(far, budget=LARGE), method=method, center="mean")
        np.testing.assert_allclose(release.moments.mean, np.vstack(far).mean(axis=0), atol=2.0)
        exact = np.cov(np.vstack(far).T, bias=True)
        assert (np.abs(np.diag(release.moments.matrix) / np.diag(exact) - 1) < 0.6).all()


def test_columns_are_aligned_by_name(tables: Tables, many: list[np.ndarray]) -> None:
    for sum in ("per-party", "trusted"):
        one = tables(many, budget=LARGE, bounds=60.0)[0]
        two = PrivateTable(
            many[1][:, ::-1], list("dcba"), name="ward-1", budget=LARGE, bounds=60.0, noise=SimulatedNoise(7)
        )
        release = release_moments([one, two], method="covariance", sum=sum)
        np.testing.assert_allclose(release.moments.matrix, second_moments(np.vstack(many)), atol=0.05)
        assert release.moments.columns == one.columns


def test_a_trusted_sum_needs_less_noise(tables: Tables, many: list[np.ndarray]) -> None:
    made = [
        release_moments(tables(many, budget=SMALL, bounds=9.0), method="covariance", sum=sum, center=False)
        for sum in SUMS
    ]
    apart, together = (release.moments.noise_sd for release in made)
    assert apart is not None and together is not None
    np.testing.assert_allclose(apart / together, math.sqrt(2), rtol=1e-6)
    assert "place that summed up" in str(made[1].privacy_report[0]) and "summed up" not in str(
        made[0].privacy_report[0]
    )


SUMS = ("per-party", "trusted")


def test_the_smallest_budget_decides_a_trusted_sum(tables: Tables, many: list[np.ndarray]) -> None:
    release = release_moments(
        tables(many, budget=[SMALL, Budget(epsilon=2, delta=1e-6)], bounds=9.0), method="covariance", sum="trusted"
    )
    small, large = release.privacy_report
    assert small.epsilon == pytest.approx(1, rel=1e-6) and large.epsilon == pytest.approx(1, rel=1e-6)


def test_budgets_of_all_kinds(tables: Tables, many: list[np.ndarray]) -> None:
    release = release_moments(tables(many, budget=[None, Budget(rho=0.05)]), method="covariance", row_norm=20.0)
    assert release.parts[0].exact and not release.parts[1].exact
    assert release.privacy_report[1].rho == pytest.approx(0.05, rel=1e-9) and release.privacy_report[1].rho <= 0.05
    part = tables(many, budget=Budget(epsilon=3, delta=1e-6))
    release = release_moments(part, method="covariance", row_norm=20.0, epsilon=1.0)
    assert release.privacy_report[0].epsilon <= 1 and release.privacy_report[0].delta == pytest.approx(1e-6 / 3)
    left = part[0].ledger.left()
    assert left is not None and left.epsilon == pytest.approx(2)


def test_added_or_removed_records_need_less_noise(many: list[np.ndarray]) -> None:
    def made(**relation: Any) -> MomentsRelease:
        table = PrivateTable(many[0], name="x", budget=SMALL, noise=SimulatedNoise(1), **relation)
        return release_moments([table], method="covariance", row_norm=9.0, center=False)

    replaced, added = made(), made(relation=ADD_OR_REMOVE_ONE, declared_rows=5000)
    assert replaced.moments.noise_sd is not None and added.moments.noise_sd is not None
    np.testing.assert_allclose(replaced.moments.noise_sd / added.moments.noise_sd, math.sqrt(2), rtol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "all"}, "method must be one of"),
        ({"sum": "some"}, "sum must be one of"),
        ({"send": 1}, "send must be True or False"),
        ({"epsilon": 0.0}, "epsilon must be"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta must be"),
        ({"row_norm": math.inf}, "row_norm must be"),
        ({"method": "preconditioned", "row_norm": 1.0}, "row_norm must be left out"),
        ({"offset": [0.0]}, "offset must be"),
        ({"offset": [0.0, 1.0, math.nan, 1.0]}, "offset must be"),
        ({"center": True, "offset": [0.0] * 4}, "not both"),
        ({"shares": [0.5, 0.4]}, "shares must add up to 1"),
        ({"shares": []}, "shares must be"),
        ({"shares": "half"}, "shares must be"),
        ({"histogram_share": 0.0}, "histogram_share must be"),
        ({"mean_share": 1.0}, "mean_share must be"),
        ({"method": "exact"}, "method must not be 'exact' for tables with budgets"),
        ({"method": "preconditioned", "send": False}, "send must be True"),
        ({"send": False, "sum": "trusted"}, "send must be True for a trusted sum"),
    ],
)
def test_refusals_read_and_charge_nothing(
    tables: Tables, arm: Callable[..., PrivateTable], arguments: dict[str, Any], message: str
) -> None:
    made = [arm(table) for table in tables(budget=Budget(epsilon=5, delta=1e-5))]
    with pytest.raises(InvalidParameter, match=message):
        release_moments(made, **arguments)
    assert not any(table.ledger.entries() for table in made)


def test_tables_that_do_not_fit_together_are_refused(tables: Tables, many: list[np.ndarray]) -> None:
    with pytest.raises(InvalidParameter, match="non-empty list"):
        release_moments([])
    with pytest.raises(InvalidTable, match="other columns"):
        release_moments([*tables(budget=SMALL), PrivateTable(many[0], list("abcz"), name="z")])
    with pytest.raises(InvalidParameter, match="all have budgets, or none"):
        release_moments(tables(many, budget=[SMALL, None]), method="covariance", row_norm=1.0, sum="trusted")
    with pytest.raises(InvalidParameter, match="one noise source"):
        noises = [SimulatedNoise(1), SimulatedNoise(2)]
        release_moments(tables(many, budget=SMALL, noise=noises), method="covariance", row_norm=1.0, sum="trusted")
    with pytest.raises(InvalidParameter, match="open tables"):
        release_moments(tables(many), method="preconditioned")
    with pytest.raises(BudgetExceeded, match="histogram with noise of sd"):
        release_moments(tables(budget=Budget(epsilon=0.01, delta=1e-6)))
    with pytest.raises(InvalidParameter, match="pure"):
        release_moments(tables(budget=Budget(epsilon=1)), row_norm=1.0)
