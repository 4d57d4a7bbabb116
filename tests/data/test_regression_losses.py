"""Losses of clipped regressions: against least squares and a search in the ball, and neighbours against the sensitivity."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from privfcd.accounting import ADD_OR_REMOVE_ONE, REPLACE_ONE
from privfcd.audits import search_sensitivity
from privfcd.data.regression_losses import RegressionLoss, least_in_ball
from privfcd.errors import InvalidParameter


def residual_variance(rows: np.ndarray, node: int, given: tuple[int, ...]) -> float:
    if not given:
        return float((rows[:, node] ** 2).mean())
    coefficients = np.linalg.lstsq(rows[:, given], rows[:, node], rcond=None)[0]
    return float(((rows[:, node] - rows[:, given] @ coefficients) ** 2).mean())


def test_with_wide_bounds_it_is_the_log_likelihood_ratio_of_least_squares() -> None:
    rows = np.random.default_rng(0).normal(size=(200, 4)) @ np.random.default_rng(1).normal(size=(4, 4))
    query = RegressionLoss(0, (1, 3), (2,), (1e3,) * 4, 50.0, 1e-6)
    query.check(4)
    ratio = residual_variance(rows, 0, (1, 3)) / residual_variance(rows, 0, (2,))
    assert query.evaluate(rows)[0] == pytest.approx(100 * math.log(ratio), abs=1e-2)
    alone = RegressionLoss(0, (1, 3), (), (1e3,) * 4, 50.0, 1e-6).evaluate(rows)[0]
    other = RegressionLoss(0, (2,), (), (1e3,) * 4, 50.0, 1e-6).evaluate(rows)[0]
    assert alone - other == pytest.approx(query.evaluate(rows)[0], abs=1e-2)


def test_values_are_clipped_and_variances_floored() -> None:
    rows = np.array([[100.0, 0.0], [0.0, 0.0]])
    assert RegressionLoss(0, (1,), (), (2.0, 1.0), 1.0, 0.1).evaluate(rows)[0] == pytest.approx(0.0)
    floored = RegressionLoss(0, (1,), (), (2.0, 2.0), 1.0, 0.5)
    # y = z is explained wholly: the floor is left, against a mean square of 2
    assert floored.evaluate(np.array([[2.0, 2.0], [0.0, 0.0]]))[0] == pytest.approx(math.log(0.5 / 2.0))


@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 10.0]))
@settings(max_examples=30)
def test_the_least_value_in_the_ball(seed: int, radius: float) -> None:
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(rng.integers(1, 5), 3))  # at times singular
    matrix = factor.T @ factor
    vector = matrix @ rng.normal(size=3) * 3
    found = least_in_ball(matrix, vector, 0.0, radius, 1e-9)

    def value(b: np.ndarray) -> float:
        inside = b * min(1.0, radius / max(float(np.linalg.norm(b)), 1e-300))
        return float(inside @ matrix @ inside - 2 * vector @ inside)

    best = min(minimize(value, rng.normal(size=3), method="Nelder-Mead", tol=1e-12).fun for _ in range(3))
    scale = 1 + abs(best)
    assert found <= best + 1e-6 * scale
    assert found >= best - 1e-3 * scale  # Nelder-Mead is not exact


@given(
    st.integers(0, 10**6),
    st.sampled_from([1e-6, 1.0, 1e8, 1e150]),
    st.sampled_from([REPLACE_ONE, ADD_OR_REMOVE_ONE]),
)
def test_no_neighbour_is_further_than_the_sensitivity(seed: int, size: float, relation: object) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(6, 3)) * rng.choice([size, 1.0])
    query = RegressionLoss(0, (1, 2), (1,), (2.0, 1.0, 3.0), 1.5, 0.3)
    other = rows[1:] if relation is ADD_OR_REMOVE_ONE else np.vstack([rng.normal(size=3) * size, rows[1:]])
    moved = abs(float(query.evaluate(rows, 6)[0] - query.evaluate(other, 6)[0]))
    assert moved <= query.sensitivity(6, relation)  # type: ignore[arg-type]


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_OR_REMOVE_ONE])
def test_the_sensitivity_search_finds_no_violation(relation: object) -> None:
    query = RegressionLoss(0, (1,), (), (2.0, 1.0), 1.0, 0.2)
    report = search_sensitivity(query, 8, 2, bound=2.0, relation=relation, evaluations=600, seed=3)  # type: ignore[arg-type]
    assert report.verdict != "violated" and report.ratio > 0.2


def test_the_bound_is_the_one_that_is_proved() -> None:
    query = RegressionLoss(0, (1, 2), (1,), (3.0, 3.0, 4.0), 2.0, 0.5)
    n = 1000
    largest = 3 + 2 * 5.0, 3 + 2 * 3.0
    expected = sum(n / 2 * math.log1p(e**2 / (n * 0.5)) for e in largest)
    assert query.sensitivity(n) == pytest.approx(expected, rel=1e-4) and query.sensitivity(n) >= expected
    assert query.sensitivity(n) <= sum(e**2 / (2 * 0.5) for e in largest)
    assert RegressionLoss(0, (1,), (1,), (3.0, 3.0, 4.0), 2.0, 0.5).sensitivity(n) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"node": 3},
        {"given": (0,)},
        {"given": (1, 1)},
        {"base": (5,)},
        {"bounds": (1.0,)},
        {"bounds": (1.0, 0.0, 1.0)},
        {"radius": 0.0},
        {"floor": -1.0},
    ],
)
def test_bad_parameters_are_refused(changes: dict[str, object]) -> None:
    good: dict[str, object] = {
        "node": 0,
        "given": (1,),
        "base": (2,),
        "bounds": (1.0,) * 3,
        "radius": 1.0,
        "floor": 0.1,
    }
    RegressionLoss(**good).check(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        RegressionLoss(**{**good, **changes}).check(3)  # type: ignore[arg-type]
