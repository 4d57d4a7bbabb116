"""Attacks on PERI's private regrets, and on FedACD's encoded tables and votes."""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np
import pytest

from benchmarks.fedacd_votes import DependenceScores, voted_skeleton
from privfcd import Budget
from privfcd.accounting import ADD_OR_REMOVE_ONE, REPLACE_ONE
from privfcd.algorithms import IPERI, PERI, UnfinishedWarning
from privfcd.algorithms.fedacd import FedACD
from privfcd.algorithms.peri import messages
from privfcd.algorithms.peri.party import PERIParty
from privfcd.algorithms.peri.settings import Settings
from privfcd.data.encoding import Contrasts
from privfcd.data.private import PrivateTable
from privfcd.data.queries import SecondMoments
from privfcd.data.regression_losses import RegressionLoss
from privfcd.errors import BudgetExceeded, InvalidParameter, PartyFailed
from privfcd.graphs.pdag import Pdag
from privfcd.ledger import Ledger
from privfcd.mechanisms import AnalyticGaussian, SimulatedNoise
from privfcd.moments import Moments

HUGE = 1.7e308


def tables_of(count: int = 2, epsilon: float = 5.0, d: int = 3, noise: Any = None, **more: Any) -> list[PrivateTable]:
    rng = np.random.default_rng(1)
    columns = [f"x{j}" for j in range(d)]
    return [
        PrivateTable(
            rng.normal(size=(200, d)).cumsum(axis=1), columns, name=f"p{k}", budget=Budget(epsilon=epsilon, delta=1e-6),
            bounds=4.0, noise=SimulatedNoise(3) if noise is None else noise, **more
        )
        for k in range(count)
    ]  # fmt: skip


def test_regrets_beyond_the_plan_are_refused_and_what_was_charged_stays_spent(spy: Any) -> None:
    tables = tables_of(noise=spy)
    with pytest.warns(UnfinishedWarning, match="max_regrets"):
        IPERI(privacy="regret", max_regrets=4).fit(tables)
    regrets = [draw for draw in spy.draws if draw.kind == "laplace"]
    assert len(regrets) <= 2 * 4
    assert len(set(draw.key for draw in spy.draws)) == len(spy.draws), "a stream of noise was used twice"
    for table in tables:
        assert table.ledger.spent()["epsilon"] > 4.99 and table.ledger.left() is None


def test_every_regret_that_is_answered_was_planned_and_has_its_noise(spy: Any) -> None:
    tables = tables_of(noise=spy)
    model = PERI(privacy="regret", max_regrets=60).fit(tables)
    drawn = [draw for draw in spy.draws if draw.kind == "laplace"]
    planned = model.rule_["noise multipliers"]
    query = RegressionLoss(0, (), (1,), (4.0,) * 3, 3.0, 0.5)
    for draw in drawn:
        assert draw.scale >= min(planned) * query.sensitivity(200) * 0.99
    assert len(drawn) <= 2 * 60 and model.privacy_spent_[0] <= 5.0 + 1e-6


def test_nobody_is_charged_or_read_where_one_party_cannot_pay(arm: Any) -> None:
    tables = [arm(table) for table in tables_of(3)]
    tables[2].ledger.reserve(tables[2].event(SecondMoments(1.0), AnalyticGaussian(1.0)), "before")
    for model in (PERI(privacy="regret"), IPERI(privacy="regret", epsilon=2.0)):
        with pytest.raises(BudgetExceeded):
            model.fit(tables)
    assert all(table.ledger.spent()["epsilon"] == 0 for table in tables[:2])


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_OR_REMOVE_ONE])
def test_no_record_moves_a_regret_by_more_than_is_said(relation: Any) -> None:
    rng = np.random.default_rng(1004)
    worst = 0.0
    for trial in range(400):
        n, d = int(rng.integers(4, 9)), 4
        bounds = tuple(rng.choice([0.5, 1.0, 3.0], size=d).tolist())
        radius, floor = float(rng.choice([0.3, 1.0, 5.0])), float(rng.choice([1e-4, 0.05, 1.0]))
        given = tuple(rng.permutation([1, 2, 3])[: rng.integers(0, 4)].tolist())
        base = tuple(rng.permutation([1, 2, 3])[: rng.integers(0, 4)].tolist())
        query = RegressionLoss(0, given, base, bounds, radius, floor)
        extreme = np.array(
            [[HUGE, -HUGE, HUGE, -HUGE], [-HUGE, HUGE, HUGE, 0.0], [1e-320, HUGE, 0.0, 0.0], [HUGE, 0, 0, 0]]
        )
        rows = rng.normal(size=(n, d)) * rng.choice([1e-8, 1e-3, 1.0, 1e300])
        if trial % 2:  # exactly explained by one column, where the floor alone holds
            rows[:, 0] = rows[:, 1]
        before = query.evaluate(rows, n)[0]
        for record in extreme:
            if relation is REPLACE_ONE:
                other = rows.copy()
                other[0] = record
            else:
                other = np.vstack([rows, record])
            moved = abs(query.evaluate(other, n)[0] - before)
            allowed = query.sensitivity(n, relation)
            assert moved <= allowed, (trial, moved, allowed)
            worst = max(worst, moved / allowed if allowed else 0.0)
    assert worst > 0.3, "the search does not come near the bound"


def test_graphs_and_masks_are_answered_only_as_agreed() -> None:
    moments = Moments(np.eye(3) + 0.2, 100, ("a", "b", "c"))
    for settings, good in (
        (Settings(masked=False, refine=False, orientation=None), {"none"}),
        (Settings(refine=False, orientation="regret"), {"directed"}),
        (Settings(), {"directed", "targets"}),
        (Settings(refine=False, orientation="authors"), {"directed", "skeleton"}),
    ):
        party = PERIParty("p", moments)
        party.answer(messages.Offer(settings, ("a", "b", "c")))
        for mask in messages.MASKS:
            ask = messages.AskRegrets(((0, 2),), mask, 3)
            if mask in good:
                assert isinstance(party.answer(ask), messages.Regrets)
            else:
                with pytest.raises(PartyFailed):
                    party.answer(ask)
        if settings.orientation == "votes":
            assert isinstance(party.answer(messages.AskGraph()), messages.Graph)
        else:
            with pytest.raises(PartyFailed):
                party.answer(messages.AskGraph())
    with pytest.raises(PartyFailed):
        party.answer(messages.AskColliders(Pdag((0,) * 3, (0,) * 3), (((0, 7),),)))


def discrete(count: int = 2, noise: Any = None, **more: Any) -> list[PrivateTable]:
    rng = np.random.default_rng(2)
    return [
        PrivateTable(
            rng.integers(0, 3, size=(300, 3)).astype(float), ["a", "b", "c"], name=f"p{k}",
            budget=Budget(epsilon=2.0, delta=1e-6), noise=SimulatedNoise(3) if noise is None else noise, **more
        )
        for k in range(count)
    ]  # fmt: skip


def test_an_encoded_table_pays_from_the_same_ledger_and_reads_nothing_unpaid(arm: Any) -> None:
    table = discrete(1)[0]
    encoded = table.encoded(Contrasts((3, 3, 3)))
    assert encoded.ledger is table.ledger
    query, noise = SecondMoments(encoded.n_columns**0.5), AnalyticGaussian(0.5)
    encoded.release(query, noise)
    left = table.ledger.left()
    encoded.reordered(encoded.columns[::-1]).release(query, noise)
    assert table.ledger.left() != left, "another view of the table was free"
    poor = arm(discrete(1)[0])
    view = (
        poor.for_run().encoded(Contrasts((3, 3, 3))).reordered(("(constant)", "c:2", "c:1", "b:2", "b:1", "a:2", "a:1"))
    )
    with pytest.raises(BudgetExceeded):
        view.release(query, AnalyticGaussian(1e-6))
    with pytest.raises(InvalidParameter):
        poor.encoded(Contrasts((3, 3)))


def test_hostile_values_are_levels_like_all_others() -> None:
    for levels in ((2, 3, 5), (1, 1, 2), (7, 1, 2)):
        encoding = Contrasts(levels)
        values = [HUGE, -HUGE, 0.5, 1.5, -0.0, 2**53 + 1.0, 1e-320, 6.999999]
        rows = np.array([[a, b, c] for a in values for b in values for c in values])
        made = encoding.apply(rows)
        assert np.isfinite(made).all() and made.shape == (len(rows), len(encoding.columns(("a", "b", "c"))))
        np.testing.assert_allclose(np.linalg.norm(made, axis=1), encoding.row_norm, rtol=1e-12)
        order = np.random.default_rng(0).permutation(len(rows))
        assert np.array_equal(encoding.apply(rows[order]), made[order])


def test_an_encoding_that_makes_other_records_is_refused() -> None:
    class Twice(Contrasts):
        def apply(self, rows: np.ndarray) -> np.ndarray:
            return np.repeat(super().apply(rows), 2, axis=0)

    with pytest.raises(InvalidParameter, match="one record for each record"):
        discrete(1)[0].encoded(Twice((3, 3, 3))).release(SecondMoments(2.0), AnalyticGaussian(2.0))


def test_two_fits_and_two_parties_share_no_noise(spy: Any) -> None:
    tables = discrete(2, noise=spy)
    for _ in range(2):
        FedACD(levels=3, epsilon=0.5, delta=1e-7).fit(tables)
    assert len(spy.draws) >= 4 and len(set(spy.keys)) == len(spy.keys)
    assert sum(table.ledger.spent()["epsilon"] for table in tables) <= 2 * 1.0 + 1e-9


def test_direct_releases_of_tables_whose_names_have_one_checksum_share_no_noise(spy: Any) -> None:
    names = ["plumless", "buckeroo"]
    assert zlib.crc32(names[0].encode()) == zlib.crc32(names[1].encode())
    for name in names:
        table = PrivateTable(np.eye(3), name=name, budget=Budget(epsilon=1.0, delta=1e-6), noise=spy)
        table.release(SecondMoments(1.0), AnalyticGaussian(5.0))
    assert len(set(spy.keys)) == 2


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_OR_REMOVE_ONE])
def test_no_record_moves_a_vote_by_more_than_is_said(relation: Any) -> None:
    rng = np.random.default_rng(1005)
    levels = (2, 3, 2, 4)
    adjacent = ~np.eye(4, dtype=bool)
    query = DependenceScores(levels, adjacent, 2)
    worst = 0.0
    for _ in range(60):
        n = int(rng.integers(2, 30))
        rows = rng.integers(0, 4, size=(n, 4)).astype(float) * rng.integers(0, 2, size=4)
        record = rng.integers(0, 5, size=(1, 4)).astype(float)
        other = np.vstack([rows, record]) if relation is ADD_OR_REMOVE_ONE else np.vstack([rows[1:], record])
        moved = np.abs(query.evaluate(other, n) - query.evaluate(rows, n)).max()
        worst = max(worst, moved)
        assert moved <= query.sensitivity(n, relation)
    assert worst > 0.5


def test_noisy_votes_charge_everybody_or_nobody(arm: Any) -> None:
    tables = [arm(table) for table in discrete(2)]
    with pytest.raises(BudgetExceeded):
        voted_skeleton(tables, (3, 3, 3), [2, 1], epsilon=3.0, delta=1e-6)
    assert all(table.ledger.spent().get("epsilon", 0) == 0 for table in tables)
    shared = Ledger(Budget(epsilon=2.0, delta=1e-6), name="one")
    twins = [PrivateTable(np.eye(3), ["a", "b", "c"], ledger=shared) for _ in range(2)]
    with pytest.raises((BudgetExceeded, InvalidParameter)):
        voted_skeleton(twins, (2, 2, 2), [1], epsilon=1.5, delta=5e-7)
    assert shared.spent().get("epsilon", 0) <= 1.5 and math.isfinite(shared.spent().get("epsilon", 0))


def test_votes_for_more_edges_than_are_left_keep_those() -> None:
    edges = voted_skeleton(discrete(2), (3, 3, 3), [1, 3], epsilon=1.0, delta=1e-7)
    assert edges.sum() == 2
