"""Losses: slopes are derivatives, curvature and bound hold, and each is clipped to a sensitivity that is searched for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privfcd.accounting import ADD_OR_REMOVE_ONE, REPLACE_ONE
from privfcd.algorithms.fed_sparse.greedy import GreedyDescent, GreedyScores
from privfcd.algorithms.fed_sparse.losses import SQUARED, HuberLoss, SquaredLoss, checked_loss
from privfcd.algorithms.fed_sparse.support_gradient import SupportGradient
from privfcd.audits.sensitivity import search_sensitivity
from privfcd.data.queries import ClippedGradient
from privfcd.errors import InvalidParameter

LOSSES = [SquaredLoss(), HuberLoss(0.3), HuberLoss(2.0)]
WEIGHTS = ((0.0, 0.7, 0.0), (0.0, 0.0, -0.4), (0.0, 0.0, 0.0))
near = st.floats(-5, 5)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@given(near, near, near)
def test_a_slope_is_the_values_derivative_within_curvature_and_bound(loss: Any, x: float, p: float, q: float) -> None:
    target, one, two = (np.array([v]) for v in (x, p, q))
    h = 1e-6
    numeric = (loss.value(target, one + h) - loss.value(target, one - h)) / (2 * h)
    assert loss.slope(target, one)[0] == pytest.approx(numeric[0], abs=1e-5)
    rise = abs(loss.slope(target, one) - loss.slope(target, two))[0]
    assert rise <= loss.curvature * abs(p - q) * (1 + 1e-9) + 1e-12
    assert abs(loss.slope(target, one)[0]) <= loss.bound and loss.value(target, one)[0] >= 0
    middle = loss.value(target, (one + two) / 2)[0]
    assert middle <= (loss.value(target, one) + loss.value(target, two))[0] / 2 + 1e-12, "convex"


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_OR_REMOVE_ONE])
def test_no_neighbours_are_further_apart_than_claimed(loss: Any, relation: Any) -> None:
    descent = GreedyDescent((1.0, 4.0, 9.0), 2.0, 0.1, 1.0, 3.0, loss=loss, fast=False)
    pull = ((0.0,) * 3,) * 3
    for query in (
        GreedyScores(descent, WEIGHTS, pull),
        SupportGradient(WEIGHTS, (0.5, 1.0, 2.0), loss=loss, fast=False),
        SupportGradient(WEIGHTS, (0.5, 1.0, 2.0), (0.3, -0.2, 0.1), loss, fast=False),
    ):
        null = getattr(query, "offset", None) or (0.0, 0.0, 0.0)  # a record that adds nothing
        found = search_sensitivity(
            query, n=6, d=3, bound=10.0, relation=relation, removal=null, evaluations=400, seed=1
        )
        assert found.found <= found.claimed
        if not isinstance(query, GreedyScores):
            assert found.found > 0.95 * found.claimed, "the claim is reached"


def test_the_support_gradient_is_the_gradients_part_in_units_of_the_clips() -> None:
    rows = np.random.default_rng(0).normal(size=(50, 3))
    for offset in (None, (0.1, 0.2, -0.3)):
        clips = (0.5, 1.0, 2.0)
        query = SupportGradient(WEIGHTS, clips, offset, fast=False)
        query.check(3)
        whole = ClippedGradient(WEIGHTS, clips, offset).evaluate(rows)
        support = np.array(WEIGHTS) != 0
        np.testing.assert_allclose(query.evaluate(rows) * np.array([0.5, 1.0]), whole[support], rtol=1e-9)
        np.testing.assert_allclose(query.decode(query.evaluate(rows)), np.where(support, whole, 0), rtol=1e-9)
    free = SupportGradient(WEIGHTS, (math.inf,) * 3, fast=False)
    moments = rows.T @ rows / 50
    np.testing.assert_allclose(free.decode(free.evaluate(rows)), (moments @ WEIGHTS - moments) * support, rtol=1e-9)
    assert free.sensitivity(50) == math.inf


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights": ((0.0, 0.0),) * 2}, "weights must be finite and of shape"),
        ({"weights": ((0.0,) * 3,) * 3}, "weights must have an entry that is not 0"),
        ({"weights": ((1.0, 1.0, 0.0),) * 3}, "none on the diagonal"),
        ({"clips": (1.0, 1.0)}, "clips must be 3 numbers"),
        ({"clips": (1.0, 0.0, 1.0)}, "clip must be"),
        ({"offset": (math.nan,) * 3}, "offset must be"),
        ({"loss": "cubic"}, "loss must be"),
        ({"fast": 1}, "fast must be"),
    ],
    ids=str,
)
def test_bad_support_gradients_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        SupportGradient(**{"weights": WEIGHTS, "clips": (1.0, 1.0, 1.0), **changes}).check(3)


def test_losses_are_checked() -> None:
    assert checked_loss("squared") is SQUARED and checked_loss(HuberLoss(1.5)) == HuberLoss(1.5)
    for bad in ("huber", 3, HuberLoss, None):
        with pytest.raises(InvalidParameter, match="loss must be"):
            checked_loss(bad)
    for width in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidParameter, match="width must be"):
            HuberLoss(width)

    class Flat(SquaredLoss):
        curvature = 0.0  # type: ignore[misc]

    class Bounded(SquaredLoss):
        bound = 0.0  # type: ignore[misc]

    with pytest.raises(InvalidParameter, match="curvature of the loss"):
        checked_loss(Flat())
    with pytest.raises(InvalidParameter, match="bound of the loss"):
        checked_loss(Bounded())
