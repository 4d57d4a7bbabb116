"""What a release pays: all before a row is read, as much as its noise says, and an audit of a whole run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from privfcd.accounting import Budget, leaves
from privfcd.algorithms.local import LocalFederation
from privfcd.algorithms.recorded import RecordedFederation
from privfcd.algorithms.release import messages, release_moments
from privfcd.algorithms.release.coordinator import ReleaseCoordinator
from privfcd.algorithms.release.party import ReleaseParty
from privfcd.algorithms.release.plan import DIFFERENCES, HISTOGRAM, MEAN, SCALES
from privfcd.algorithms.release.rules import check_condition
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.algorithms.release.whitening import structure_whitening
from privfcd.data.directions import LinearMoments
from privfcd.data.histogram import OctaveHistogram
from privfcd.data.private import PrivateTable
from privfcd.errors import BudgetExceeded, PartyFailed
from privfcd.mechanisms import SimulatedNoise

Tables = Callable[..., list[PrivateTable]]
SMALL = Budget(epsilon=1, delta=1e-6)
RUNS = [
    {"method": "covariance", "center": False},
    {"method": "covariance"},
    {"method": "covariance", "send": False, "center": True},
    {"method": "covariance", "sum": "trusted", "center": False},
    {"method": "preconditioned", "center": False},
    {"method": "preconditioned", "center": True},
    {"method": "preconditioned", "center": "mean"},
    {"method": "preconditioned", "sum": "trusted", "center": False},
]


@pytest.mark.parametrize("arguments", RUNS)
def test_a_refusal_of_the_last_party_charges_none(
    tables: Tables, many: list[np.ndarray], arm: Callable[..., PrivateTable], arguments: dict[str, Any]
) -> None:
    made = [arm(table) for table in tables(many, budget=[SMALL, Budget(epsilon=0.5, delta=1e-6)])]
    with pytest.raises(BudgetExceeded):
        release_moments(made, epsilon=0.9, delta=5e-7, **arguments)
    assert not any(table.ledger.entries() for table in made)


@pytest.mark.parametrize("arguments", RUNS)
def test_all_are_charged_before_any_row_is_read(
    tables: Tables,
    many: list[np.ndarray],
    arm: Callable[..., PrivateTable],
    rows_touched: type[BaseException],
    arguments: dict[str, Any],
) -> None:
    made = tables(many, budget=SMALL)
    arm(made[0])
    with pytest.raises(rows_touched):
        release_moments(made, **arguments)
    assert [[entry.kind for entry in table.ledger.entries()] for table in made] == [["reserve"]] * 2
    assert all(table.ledger.left() is None for table in made), "nothing goes back after an error"


@pytest.mark.parametrize("arguments", RUNS)
def test_noise_is_at_least_what_was_paid_for(many: list[np.ndarray], spy: Any, arguments: dict[str, Any]) -> None:
    made = [
        PrivateTable(rows, list("abcd"), name=f"ward-{index}", budget=SMALL, noise=spy)
        for index, rows in enumerate(many)
    ]
    release = release_moments(made, **arguments)
    report = release.privacy_report[0]
    trusted = arguments.get("sum") == "trusted"
    n = 10_000 if trusted else 5000
    draws = [draw for draw in spy.draws if draw.key[0] == 0]
    assert len(draws) == len(report.parts) == len({draw.key for draw in draws})
    assert len(spy.draws) == len(draws) * (1 if trusted else 2)
    multipliers = {}
    for entry in made[0].ledger.entries():
        if entry.kind == "reserve":
            total = 0.0
            for event, count in leaves(eval(entry.event, _EVENTS)):
                total += count / event.noise_multiplier**2
            multipliers["mu²"] = total
    spent = 0.0
    for draw, part in zip(draws, _in_order(draws, report.parts), strict=True):
        largest = float(np.max(draw.scale))
        if part.label.startswith("histogram"):
            sensitivity = OctaveHistogram(4).sensitivity(n)
        elif part.label == "mean":
            sensitivity = 2 * math.sqrt(4) / n
        elif "round" in part.label:
            sensitivity = math.sqrt(2) * release.rule["rounds"][int(part.label[-1]) - 1]["norm"] ** 2 / n
        else:
            norm = release.rule.get("row norm") or release.rule["row norm at each party"][0]
            sensitivity = math.sqrt(2) * norm**2 / n
        if arguments["method"] == "preconditioned" and arguments.get("center") is True:
            sensitivity *= 2  # a record is in two pairs of each shift
        spent += (sensitivity / largest) ** 2
    assert spent == pytest.approx(multipliers["mu²"], rel=1e-6)


def _in_order(draws: list[Any], parts: Any) -> list[Any]:
    """Histograms and means come first, in the order in which they are asked for."""
    rank = {HISTOGRAM: 0, MEAN: 1, SCALES: 2, DIFFERENCES: 2}
    return sorted(parts, key=lambda part: rank.get(part.label, 3))


def _events() -> dict[str, Any]:
    import dp_accounting

    return {
        name: getattr(dp_accounting, name) for name in ("GaussianDpEvent", "ComposedDpEvent", "SelfComposedDpEvent")
    }


_EVENTS = _events()


@pytest.mark.parametrize("center", [False, True])
def test_a_whole_run_is_as_private_as_claimed_and_no_more(center: bool) -> None:
    """The likelihood ratio of whole transcripts, on neighbours made to be told apart.

    The auditor knows both tables, replays each query with the matrices that were sent, and adds up the exact log
    likelihood ratios; the squared distances of the exact answers, in units of the noise, add up to the realised mu². One
    record is a canary whose direction is orthogonal to that of the record that it replaces, in other octaves in every
    column.
    """
    d, n, runs = 3, 240 if center else 120, 50
    rows = np.random.default_rng(0).normal(size=(n, d))
    rows[0] = [40.0, 1e-3, 1e-3]
    other = rows.copy()
    other[0] = [1e-2, 40.0, 1e-2]
    if center:  # so far out that a difference from any record is as good as the record itself
        rows[0], other[0] = [4e5, 4e2, 4e2], [4e3, 1.6e6, 4e3]
    budget = Budget(rho=0.5)
    claimed = 1.0
    ratios: dict[bool, list[float]] = {False: [], True: []}
    for seed in range(runs):
        for replaced in (False, True):
            data = other if replaced else rows
            table = PrivateTable(data, list("abc"), name="x", budget=budget, noise=SimulatedNoise(2 * seed + replaced))
            settings = ReleaseSettings("preconditioned", center=center, histogram_share=0.3, shares=(0.5, 0.5))
            party = ReleaseParty([table], 0)
            federation = RecordedFederation.local([party])
            coordinator = ReleaseCoordinator(settings, table.columns, structure_whitening)
            coordinator.run(federation, coordinator.offer(federation))
            ratio, realised = _log_ratio(federation, rows, other)
            ratios[replaced].append(ratio)
            assert 0.75 * claimed**2 < realised <= claimed**2, "as much is told as was paid for, and no more"
    low, high = np.array(ratios[False]), np.array(ratios[True])
    measured = (high.mean() - low.mean()) / math.sqrt((low.var() + high.var()) / 2)
    error = math.sqrt(2 / runs + measured**2 / (4 * runs))
    assert 0.87 * claimed - 4 * error < measured < claimed + 4 * error


def _log_ratio(federation: RecordedFederation, rows: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    total = realised = 0.0
    for message, answers in federation.transcript:
        (answer,) = answers
        if isinstance(message, messages.AskHistogram):
            assert isinstance(answer, messages.Numbers)
            query: Any = OctaveHistogram(3, differences=message.differences)
            seen, scale = answer.values, answer.noise_sd
        elif isinstance(message, messages.AskMoments):
            assert isinstance(answer, messages.Matrix) and message.linear is not None
            query = LinearMoments(message.linear.dense(), message.row_norm, differences=message.differences)
            seen, scale = answer.dense(), answer.scale
        else:
            continue
        one, two = query.evaluate(rows), query.evaluate(other)
        total += float((((seen - one) ** 2).sum() - ((seen - two) ** 2).sum()) / (2 * scale**2))
        realised += float(((one - two) ** 2).sum()) / scale**2
    return total, realised


def test_a_party_answers_in_order_only(tables: Tables) -> None:
    party = ReleaseParty(tables(budget=SMALL)[:1], 0)
    ask = messages.AskMoments("second moments, round 1", 2.0, None, None)
    for early in (ask, messages.Plan((("x", 1.0),)), messages.AskOwn(), messages.AskHistogram("x", None)):
        with pytest.raises(PartyFailed):
            party.answer(early)
    settings = ReleaseSettings(method="covariance", row_norm=3.0)
    party = ReleaseParty(tables(budget=SMALL)[:1], 0)
    federation = LocalFederation([party])
    federation.ask(messages.Offer(settings, ("a", "b", "c", "d")))
    federation.ask(messages.Plan((("second moments, clipped", 1.0),)))
    with pytest.raises(PartyFailed, match="before it was charged"):
        party.answer(messages.AskMoments("second moments, clipped", 3.0, None, None))
    federation.ask(messages.Charge())
    federation.ask(messages.AskMoments("second moments, clipped", 3.0, None, None))
    with pytest.raises(BudgetExceeded):
        party.answer(messages.AskMoments("second moments, clipped", 3.0, None, None))


@pytest.mark.parametrize(
    "matrix",
    [
        np.array([[1.0, 1.0], [1.0, 1.0]]),
        np.array([[1.0, 1.0], [1.0, 1.0 + 1e-9]]),
        np.array([[1.0, 0.0], [0.0, 0.0]]),
        np.array([[math.nan, 0.0], [0.0, 1.0]]),
        np.array([[math.inf, 0.0], [0.0, 1.0]]),
    ],
)
def test_a_party_answers_no_round_whose_matrix_would_blow_up(matrix: np.ndarray) -> None:
    with pytest.raises(PartyFailed, match="not well conditioned"):
        check_condition(matrix, "x")
    check_condition(np.array([[1e-9, 0.0], [3.0, 1e4]]), "columns in other units are no matter")


def test_malformed_answers_are_refused() -> None:
    with pytest.raises(PartyFailed, match="malformed"):
        messages.Matrix(2, np.ones(4), 1.0).check(2, "x")
    with pytest.raises(PartyFailed, match="malformed"):
        messages.Matrix(2, np.full(3, math.nan), 1.0).check(2, "x")
    with pytest.raises(PartyFailed, match="noise of scale"):
        messages.Matrix(2, np.ones(3), -1.0).check(2, "x")
    with pytest.raises(PartyFailed, match="malformed"):
        messages.Numbers(np.ones(3), math.inf).check((3,), "x")
