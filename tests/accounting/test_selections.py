"""The adaptive recursion against nested brute-force optimisation, and the laws that both bounds keep."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privfcd.accounting import selections
from privfcd.accounting.curves import Curve
from privfcd.accounting.selections import cells_for, selection_curve, selection_lower

Array = NDArray[np.float64]
LAWS = settings(max_examples=25, deadline=None, derandomize=True)


def start(e: Array) -> Array:
    return np.maximum(-np.expm1(e), 0.0)


def played(curve: Callable[[Array], Array], eta: float, points: int) -> Callable[[Array], Array]:
    """One step of the recursion as it is written down, over a fine grid of t."""
    t = np.linspace(0.0, eta, points)
    share = np.expm1(t - eta) / math.expm1(-eta)

    def after(e: Array) -> Array:
        shifted = np.asarray(e)[..., None] - t
        return np.asarray((share * curve(shifted) + (1 - share) * curve(shifted + eta)).max(axis=-1))

    return after


def one(eta: float) -> Callable[[Array], Array]:
    """H_1 in closed form, for every e."""

    def curve(e: Array) -> Array:
        inside = np.expm1((np.clip(e, -eta, eta) - eta) / 2) ** 2 / -math.expm1(-eta)
        return np.where(np.asarray(e) < -eta, -np.expm1(e), np.where(e > eta, 0.0, inside))

    return curve


def nested(eta: float, count: int, points: int = 301) -> Callable[[Array], Array]:
    curve = one(eta)
    for _ in range(count - 1):
        curve = played(curve, eta, points)
    return curve


def same_t(eta: float, count: int, epsilon: float) -> float:
    """The largest delta of an adversary that repeats one t."""
    t = np.linspace(0.0, eta, 2001)
    share = np.expm1(t - eta) / math.expm1(-eta)
    total = np.zeros_like(t)
    for hits in range(count + 1):
        loss = hits * t + (count - hits) * (t - eta)
        mass = math.comb(count, hits) * share**hits * (1 - share) ** (count - hits)
        total += mass * np.maximum(-np.expm1(epsilon - loss), 0.0)
    return float(total.max())


def value(curve: Curve, epsilon: float) -> float:
    return float(curve.at(np.array(epsilon)))


@pytest.mark.parametrize("eta", [0.01, 0.5, 3.0])
def test_first_step_is_the_best_chord(eta: float) -> None:
    e = np.linspace(-1.2 * eta, 1.2 * eta, 41)
    brute = played(start, eta, 20001)(e)
    assert np.all(one(eta)(e) >= brute - 1e-14)
    assert np.allclose(one(eta)(e), brute, atol=1e-8)


@pytest.mark.parametrize("eta", [0.05, 0.5, 2.0])
@pytest.mark.parametrize("count", [2, 3])
def test_bounds_enclose_nested_optimisation(eta: float, count: int) -> None:
    upper, lower = selection_curve(eta, count, math.inf), selection_lower(eta, count, math.inf)
    nodes = upper.nodes()[:: len(upper.values) // 24]
    brute = nested(eta, count)(nodes)
    below = lower.values[:: len(upper.values) // 24]
    # brute force over t on a grid is itself at most the optimum
    assert np.all(brute <= np.array([value(upper, e) for e in nodes]) * (1 + 1e-12) + 1e-15)
    finer = nested(eta, count, 2 * cells_for(count) + 1)(nodes)
    assert np.all(below <= np.maximum(brute, finer) * (1 + 1e-9) + 1e-15)
    bulk = brute > 1e-4
    assert np.allclose(below[bulk], brute[bulk], rtol=2e-3)
    assert np.allclose([value(upper, e) for e in nodes[bulk]], brute[bulk], rtol=2e-3)


def test_adapting_gains_over_one_t() -> None:
    upper, lower = selection_curve(0.5, 3, math.inf, 512), selection_lower(0.5, 3, math.inf, 500)
    node = lower.values[round(0.4 / lower.step)]
    assert round(float(node), 4) == 0.0601
    assert round(value(upper, 0.4), 4) == 0.0601
    assert round(same_t(0.5, 3, 0.4), 4) == 0.0550


def test_a_step_bounds_every_t_of_the_interpolation() -> None:
    # the bound on a coarse grid against chords of the same interpolation at t that are off the grid
    eta, m = 1.0, 4
    first = selection_curve(eta, 1, math.inf, m)

    def interpolated(e: Array) -> Array:
        ahead = first.at(np.abs(e))
        mirrored = -np.expm1(-np.abs(e)) + np.exp(-np.abs(e)) * ahead
        return np.where(e < 0, mirrored, ahead)

    second = selection_curve(eta, 2, math.inf, m)
    for index, e in enumerate(second.nodes()):
        best = float(played(interpolated, eta, 4001)(np.array([e]))[0])
        # between mirrored nodes the interpolation in exp(e) is the mirrored one: reflection keeps lines
        assert best <= second.values[index] * (1 + 1e-12)


@LAWS
@given(
    st.floats(-3, 1).map(lambda x: 10.0**x),
    st.integers(1, 40),
    st.floats(0.05, 1.0),
)
def test_laws_of_the_curves(eta: float, count: int, part: float) -> None:
    upper = selection_curve(eta, count, math.inf)
    lower = selection_lower(eta, count, math.inf)
    assert np.all(np.diff(upper.values) <= 0)
    assert np.all(lower.values <= upper.values)
    assert upper.values[-1] == 0.0
    more = selection_curve(eta, count + 1, math.inf, cells_for(count))
    assert np.all(more.values[: len(upper.values)] >= upper.values)
    cut = selection_curve(eta, count, part * count * eta)
    assert np.all(cut.values >= upper.values[: len(cut.values)] * (1 - 1e-12))
    wider = selection_curve(1.01 * eta, count, math.inf)
    epsilon = part * count * eta
    assert value(wider, epsilon) >= value(upper, epsilon)


@pytest.mark.parametrize("level", [1e-20, 1e-100, 1e-250])
def test_rare_losses_keep_their_relative_accuracy(level: float) -> None:
    upper, lower = selection_curve(0.05, 150, math.inf), selection_lower(0.05, 150, math.inf)
    above = upper.step * np.flatnonzero(upper.values <= level)[0]
    below = lower.step * np.flatnonzero(lower.values > level)[-1]
    assert below <= above <= 1.015 * below


def test_thinned_stops_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    thinned = selection_curve(0.1, 257, 5.0)
    monkeypatch.setattr(selections, "_stops", lambda m, count: np.arange(m + 1))
    full = selection_curve.__wrapped__(0.1, 257, 5.0)
    assert np.all(thinned.values >= full.values * (1 - 1e-12))
    bulk = full.values > 1e-8
    assert np.all(thinned.values[bulk] <= full.values[bulk] * 1.01)
