"""The hot loop: exact bookkeeping, sensitivity by construction, and the noise that the plan says."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.accounting import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    Budget,
    NonPrivateDpEvent,
    gaussian_event,
    selection_event,
)
from privfcd.algorithms.fed_sparse.greedy import SELECTION, UPDATE, GreedyDescent, GreedyScores, GreedySession
from privfcd.data.private import PrivateTable
from privfcd.data.queries import ClippedGradient
from privfcd.errors import BudgetExceeded, ConvergenceFailure, InvalidParameter
from privfcd.ledger import PlanPart
from privfcd.mechanisms import SimulatedNoise

D = 3
SMOOTHNESS = (1.0, 4.0, 9.0)
OFF = list(itertools.permutations(range(D), 2))


def data(seed: int = 0, n: int = 60) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, D))
    rows[:, 1] += 1.5 * rows[:, 0]
    return rows


def opened(
    rows: np.ndarray, *, clip: float = 2.0, z: float | None = 3.0, count: int = 500, noise: Any = None, **changes: Any
) -> tuple[GreedySession, PrivateTable, GreedyDescent]:
    """A session; `z` None for an open table without noise."""
    budget = None if z is None else Budget(rho=1e6)
    table = PrivateTable(rows, budget=budget, noise=SimulatedNoise(1) if noise is None else noise)
    selection = NonPrivateDpEvent() if z is None else selection_event(1.0, z)
    update = NonPrivateDpEvent() if z is None else gaussian_event(1.0, z)
    plan = [PlanPart(SELECTION, selection, count), PlanPart(UPDATE, update, count)]
    arguments = {"smoothness": SMOOTHNESS, "l1": 0.1, "ridge": 1.0, "noise_multiplier": z or 0.0, **changes}
    descent = GreedyDescent(clip=clip, **arguments)
    return table.session(descent, table.ledger.reserve(plan)), table, descent


def soft(value: float, limit: float) -> float:
    return math.copysign(max(abs(value) - limit, 0.0), value)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(st.sampled_from(OFF), st.floats(-3, 3)), min_size=1, max_size=25),
    st.sampled_from([0.5, 5.0, math.inf]),
    st.sampled_from([None, (0.5, -1.0, 2.0)]),
)
def test_after_many_moves_the_session_is_what_it_would_be_from_scratch(
    moves: list[tuple[tuple[int, int], float]], clip: float, offset: tuple[float, ...] | None
) -> None:
    rows = data()
    session, _, descent = opened(rows, clip=clip, z=None, offset=offset)
    start, pull = np.zeros((D, D)), np.random.default_rng(1).normal(size=(D, D))
    session.start(start, pull)
    weights = start.copy()
    for (i, j), value in moves:
        weights[i, j] = value
        session.move(i, j, value)
    assert np.array_equal(session.weights, weights)
    assert not start.any(), "the caller's array is not written to"
    clips = tuple(descent.clips().tolist())
    gradient = ClippedGradient(tuple(map(tuple, weights)), clips, offset).evaluate(rows)
    public = pull + descent.ridge * weights
    for i, j in OFF:
        assert session.gradient(i, j) == pytest.approx(gradient[i, j] + public[i, j], rel=1e-9, abs=1e-9)
    scores = GreedyScores(descent, tuple(map(tuple, weights)), tuple(map(tuple, pull))).evaluate(rows)
    for score, (i, j) in zip(scores, OFF, strict=True):
        step = weights[i, j] - (gradient[i, j] + public[i, j]) / SMOOTHNESS[i]
        moved = abs(soft(step, descent.l1 / SMOOTHNESS[i]) - weights[i, j])
        assert score == pytest.approx(math.sqrt(SMOOTHNESS[i]) * moved, rel=1e-8, abs=1e-8)
    assert OFF[int(np.argmax(scores))] == session.select() or np.sort(scores)[-1] - np.sort(scores)[-2] < 1e-9


def test_a_new_round_starts_afresh() -> None:
    rows = data()
    session, _, descent = opened(rows, z=None)
    session.start(np.zeros((D, D)), np.zeros((D, D)))
    for i, j in OFF:
        session.move(i, j, 7.0)
    weights = np.random.default_rng(2).normal(size=(D, D)) * (1 - np.eye(D))
    session.start(weights, -weights)
    gradient = ClippedGradient(tuple(map(tuple, weights)), tuple(descent.clips().tolist())).evaluate(rows)
    for i, j in OFF:
        assert session.gradient(i, j) == pytest.approx(gradient[i, j], rel=1e-9, abs=1e-12)


def test_an_unclipped_session_has_the_closed_form_gradient() -> None:
    rows, weights = data(), np.array([[0.0, 1.2, 0.3], [0.0, 0.0, -2.0], [0.4, 0.0, 0.0]])
    session, _, _ = opened(rows, clip=math.inf, z=None)
    session.start(weights, np.zeros((D, D)))
    closed = -rows.T @ (rows - rows @ weights) / len(rows) + weights
    for i, j in OFF:
        assert session.gradient(i, j) == pytest.approx(closed[i, j], rel=1e-10)


def test_proximal_greedy_descent_ends_at_the_lasso() -> None:
    """K large, no clipping: the local step minimises L(B) + pull.B + ridge/2 |B|² + l1 |B|_1."""
    rows, ridge, l1 = data(n=200), 0.7, 0.4
    pull = np.random.default_rng(4).normal(size=(D, D))
    second = (rows**2).mean(axis=0) + ridge
    session, _, _ = opened(rows, clip=math.inf, z=None, count=3000, ridge=ridge, l1=l1, smoothness=tuple(second))
    session.start(np.zeros((D, D)), pull)
    for _ in range(3000):
        i, j = session.select()
        rate = 1 / second[i]
        session.move(i, j, soft(session.weights[i, j] - rate * session.gradient(i, j), rate * l1))
    moments = rows.T @ rows / len(rows)
    expected = np.zeros((D, D))
    for _ in range(3000):  # cyclic coordinate descent, exact in each coordinate
        for i, j in OFF:
            rest = moments[i] @ expected[:, j] - moments[i, i] * expected[i, j]
            expected[i, j] = soft(moments[i, j] - rest - pull[i, j], l1) / (moments[i, i] + ridge)
    np.testing.assert_allclose(session.weights, expected, atol=1e-10)
    assert (expected[~np.eye(D, dtype=bool)] == 0).any(), "the penalty should bite somewhere"


def internals(rows: np.ndarray, moves: list[tuple[int, int, float]], **changes: Any) -> tuple[np.ndarray, np.ndarray]:
    """What selections and updates look at, after the same public moves."""
    session, _, _ = opened(rows, **changes)
    session.start(np.zeros((D, D)), np.zeros((D, D)))
    for i, j, value in moves:
        session.move(i, j, value)
    assert session._data is not None
    return session._state.scores.T * (1 - np.eye(D)), session._data.gradient.T


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_OR_REMOVE_ONE])
def test_claims_follow_from_the_clip(relation: Any) -> None:
    descent = GreedyDescent(SMOOTHNESS, 2.0, 0.1, 1.0, 1.0)
    width, n, total = 2 if relation is REPLACE_ONE else 1, 60, sum(SMOOTHNESS)
    clips = [2.0 * math.sqrt(m / (D * total)) for m in SMOOTHNESS]
    assert descent.clips() == pytest.approx(clips)
    entries = descent.entry_sensitivity(n, relation)
    assert entries == pytest.approx([width * c / n for c in clips], rel=1e-9)
    assert (entries >= np.array([width * c / n for c in clips])).all()
    score = width * 2.0 / (n * math.sqrt(D * total))
    assert score <= descent.score_sensitivity(n, relation) <= score * (1 + 1e-5)
    assert entries / np.sqrt(SMOOTHNESS) == pytest.approx([score] * D, rel=1e-9), "one scale for all (i, j)"


def test_no_record_moves_scores_or_gradients_by_more_than_is_claimed() -> None:
    rng = np.random.default_rng(0)
    descent = GreedyDescent(SMOOTHNESS, 2.0, 0.1, 1.0, 3.0)
    n = 8
    score, entry = descent.score_sensitivity(n, REPLACE_ONE), descent.entry_sensitivity(n, REPLACE_ONE)
    worst_score, worst_entry = np.zeros((D, D)), np.zeros((D, D))
    pool = np.array([0.0, 5e-324, 1e-200, 1.0, -1.0, 30.0, -1e6, 1e60, -1e100])
    for trial in range(400):
        rows = rng.normal(size=(n, D)) if trial % 2 else rng.choice(pool, size=(n, D))
        other = rows.copy()
        other[0] = -rows[0] if trial % 3 == 0 else rng.choice(pool, size=D) * rng.choice([1.0, -1.0])
        moves = [(*OFF[int(k)], float(rng.normal())) for k in rng.integers(0, 6, size=trial % 7)]
        if trial % 5 == 0:
            rows[0], other[0] = (1e3, 1e3, 1e3), rng.permutation([1e3, 1e3, -1e3])
        (s1, g1), (s2, g2) = (internals(table, moves, clip=2.0) for table in (rows, other))
        worst_score, worst_entry = np.maximum(worst_score, abs(s1 - s2)), np.maximum(worst_entry, abs(g1 - g2))
    assert worst_score.max() <= score
    assert (worst_entry <= entry[:, None]).all()
    off = ~np.eye(D, dtype=bool)
    assert (worst_entry / entry[:, None])[off] == pytest.approx(1, rel=1e-6), "each claim is reached"
    assert worst_score[off].min() > 0.8 * score, "the same for every (i, j)"


def test_noise_has_the_scale_that_was_planned(spy: Any) -> None:
    z = 3.7
    session, table, descent = opened(data(), z=z, noise=spy)
    session.start(np.zeros((D, D)), np.zeros((D, D)), 4, 1)
    places = [session.select() for _ in range(40)]
    for i, j in OFF:
        session.gradient(i, j)
    score = descent.score_sensitivity(table.n_rows, REPLACE_ONE)
    entry = descent.entry_sensitivity(table.n_rows, REPLACE_ONE)
    picks, values = spy.draws[:40], spy.draws[40:]
    assert [draw.kind for draw in spy.draws] == ["select"] * 40 + ["gaussian"] * 6
    assert all(z <= float(draw.scale) / score <= z * (1 + 1e-12) for draw in picks)
    for draw, (i, _) in zip(values, OFF, strict=True):
        assert z <= float(draw.scale) / entry[i] <= z * (1 + 1e-12)
    assert all(draw.value.shape == (D * (D - 1),) for draw in picks), "the diagonal is no candidate"
    assert len(set(places)) > 1 and all(i != j for i, j in places)
    assert spy.keys == [(4, 1)]


def test_draws_come_before_the_look_and_stop_at_the_plan(spy: Any) -> None:
    session, table, _ = opened(data(), count=2, noise=spy)
    session.start(np.zeros((D, D)), np.zeros((D, D)))
    for _ in range(2):
        session.select()
        session.gradient(0, 1)
    before = (len(spy.draws), table.ledger.spent_units(), session.weights.tolist())
    for _ in range(2):
        with pytest.raises(BudgetExceeded, match="coordinate selection"):
            session.select()
        with pytest.raises(BudgetExceeded, match="coordinate gradient"):
            session.gradient(0, 1)
    assert before == (len(spy.draws), table.ledger.spent_units(), session.weights.tolist())


def test_sessions_refuse_reservations_that_do_not_cover_them() -> None:
    _, table, descent = opened(data(), z=3.0)
    enough = [PlanPart(SELECTION, selection_event(1.0, 3.0), 1), PlanPart(UPDATE, gaussian_event(1.0, 3.0), 1)]
    table.session(descent, table.ledger.reserve(enough))
    for part, event in itertools.product((0, 1), (selection_event, gaussian_event)):
        short = list(enough)
        short[part] = PlanPart(enough[part].label, event(1.0, 3.0001), 1)
        with pytest.raises(InvalidParameter, match="but the reservation planned"):
            table.session(descent, table.ledger.reserve(short))
    with pytest.raises(InvalidParameter, match="label must be one of"):
        table.session(descent, table.ledger.reserve(enough[:1]))
    for wrong in ({"noise_multiplier": 0.0}, {"noise_multiplier": 2.999}, {"clip": math.inf}):
        fields = {name: getattr(descent, name) for name in descent.__dataclass_fields__} | wrong
        with pytest.raises(InvalidParameter):
            table.session(GreedyDescent(**fields), table.ledger.reserve(enough))
    _, other, _ = opened(data())
    with pytest.raises(InvalidParameter, match="reservation must be on the ledger"):
        table.session(descent, other.ledger.reserve(enough))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"smoothness": (1.0, 2.0)}, "smoothness must be 3 numbers"),
        ({"smoothness": (1.0, 2.0, 0.0)}, "smoothness must be .* got 0.0"),
        ({"smoothness": (1.0, 2.0, math.nan)}, "smoothness must be .* got nan"),
        ({"clip": 0.0}, "clip must be"),
        ({"clip": math.nan}, "clip must be"),
        ({"l1": -0.1}, "l1 must be"),
        ({"ridge": math.inf}, "ridge must be"),
        ({"z": -1.0}, "noise_multiplier must be"),
        ({"offset": (0.0, 1.0)}, "offset must be"),
    ],
    ids=str,
)
def test_a_descent_refuses_bad_constants(changes: dict[str, Any], message: str) -> None:
    z = changes.pop("z", 3.0)
    descent = {"smoothness": SMOOTHNESS, "clip": 2.0, "l1": 0.1, "ridge": 1.0, "noise_multiplier": z, **changes}
    with pytest.raises(InvalidParameter, match=message):
        GreedyDescent(**descent).check(D)


def test_a_round_refuses_weights_that_are_not_finite() -> None:
    session, _, _ = opened(data())
    for bad in (math.nan, math.inf):
        with pytest.raises(InvalidParameter, match="must be finite"):
            session.start(np.full((D, D), bad), np.zeros((D, D)))
        with pytest.raises(InvalidParameter, match="must be finite"):
            session.start(np.zeros((D, D)), np.full((D, D), bad))


@pytest.mark.parametrize("row", [(1.7e308, 0.0, -1.7e308), (1e308, -1e308, 1e308), (5e-324, 0.0, 1.7e308)])
@pytest.mark.parametrize("weight", [2.0, 1e5])
def test_no_record_stops_a_run(row: tuple[float, ...], weight: float) -> None:
    rows = data()
    rows[0] = row
    session, _, _ = opened(rows)
    for start in (np.zeros((D, D)), np.full((D, D), weight) * (1 - np.eye(D)) * [1.0, -1.0, 1.0]):
        session.start(start, -start)
        for value in (weight, -weight, 0.5):
            session.move(0, 2, value)
            session.move(1, 2, -value)
            session.select()
            assert math.isfinite(session.gradient(0, 2)) and math.isfinite(session.gradient(2, 1))


def test_weights_beside_which_scores_would_be_rounded_away_are_refused_whatever_the_rows() -> None:
    messages = []
    for rows in (data(0), data(1) * 1e9):
        session, _, descent = opened(rows)
        limit = descent.largest_public(60, REPLACE_ONE)
        huge = np.full((D, D), 2 * limit)
        for weights, pull in ((huge, np.zeros((D, D))), (np.zeros((D, D)), 9 * huge)):
            with pytest.raises(ConvergenceFailure) as refusal:
                session.start(weights, pull)
            messages.append(str(refusal.value))
        session.start(np.zeros((D, D)), np.zeros((D, D)))
        with pytest.raises(ConvergenceFailure):
            session.move(0, 1, 2 * limit)
    assert messages[:2] == messages[2:]
