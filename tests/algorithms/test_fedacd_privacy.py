"""Private FedACD: what is charged and when, what the noise's law says, and what a report shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.fedacd_runs import skeleton_f1
from benchmarks.fedacd_votes import DependenceScores, dependence, voted_skeleton
from privfcd import FedACD, PrivateTable
from privfcd.accounting import Budget, NeighboringRelation
from privfcd.algorithms.fedacd.settings import noisy_alpha
from privfcd.algorithms.scores import effective_rows
from privfcd.audits import search_sensitivity
from privfcd.data.encoding import Contrasts
from privfcd.datasets.networks import load_network
from privfcd.datasets.non_iid import non_iid
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.mechanisms import SimulatedNoise

NETWORK = load_network("child")
BUDGET = Budget(epsilon=5.0, delta=1e-5)


def discrete_tables(parties: int = 2, rows: int = 1000, **options: Any) -> list[PrivateTable]:
    parts = np.array_split(NETWORK.sample(rows, 1000), parties)
    options = {"budget": BUDGET, "noise": SimulatedNoise(1), **options}
    return [PrivateTable(part, NETWORK.columns, **{"name": f"p{k}", **options}) for k, part in enumerate(parts)]


def continuous_tables(parties: int = 2, rows: int = 1500, **options: Any) -> list[PrivateTable]:
    made = non_iid(6, parties, rows, 1000, edges=7, alike=True)
    options = {"budget": BUDGET, "noise": SimulatedNoise(1), **options}
    return [PrivateTable(part, tuple("fbdace"), name=f"p{k}", **options) for k, part in enumerate(made.tables)]


@pytest.mark.parametrize(("make", "levels"), [(discrete_tables, NETWORK.levels), (continuous_tables, None)])
@pytest.mark.parametrize("sum_", ["per-party", "trusted"])
def test_every_table_pays_once_and_no_more_than_its_budget(
    make: Callable[..., list[PrivateTable]], levels: Any, sum_: str
) -> None:
    tables = make()
    model = FedACD(levels, center=None if levels else False, sum=sum_).fit(tables)
    assert 0 < model.privacy_spent_[0] <= 5.0 and model.privacy_spent_[1] == 1e-5
    assert len(model.privacy_report_) == 2
    for report, table in zip(model.privacy_report_, tables, strict=True):
        assert report.party == table.name and report.epsilon <= 5.0 and not report.secure
        assert report.declared["rows"] == table.n_rows
        if levels:
            assert report.declared["levels"] == dict(zip(NETWORK.columns, NETWORK.levels, strict=True))
            assert report.declared["row_norm"] == Contrasts(levels).row_norm
        kinds = [entry.kind for entry in table.ledger.entries()]
        assert kinds[0] == "reserve" and kinds.count("reserve") == 1
    assert model.moments_ is not None and not model.moments_.exact


@pytest.mark.parametrize(("make", "levels"), [(discrete_tables, NETWORK.levels), (continuous_tables, None)])
def test_all_are_charged_before_any_row_is_read(
    make: Callable[..., list[PrivateTable]],
    levels: Any,
    arm: Callable[..., PrivateTable],
    rows_touched: type[BaseException],
) -> None:
    for options in ({}, {"budget": None}):
        tables = make(**options)
        for table in tables:
            arm(table)
        with pytest.raises(rows_touched):
            FedACD(levels).fit(tables)
        assert [[entry.kind for entry in table.ledger.entries()] for table in tables] == [["reserve"]] * 2


def test_mixed_data_is_refused_before_a_charge_and_before_a_row_is_read(arm: Callable[..., PrivateTable]) -> None:
    levels = dict(zip(NETWORK.columns, NETWORK.levels, strict=True))
    tables = [arm(table) for table in discrete_tables()]
    with pytest.raises(InvalidParameter, match="discrete and continuous columns together are not supported"):
        FedACD({**levels, "Age": None}).fit(tables)
    assert not any(table.ledger.entries() for table in tables)


def test_a_refusal_of_one_party_charges_none(arm: Callable[..., PrivateTable]) -> None:
    tables = [*discrete_tables(1), *discrete_tables(1, 900, name="poor", budget=Budget(epsilon=0.1, delta=1e-5))]
    for table in tables:
        arm(table)
    with pytest.raises(BudgetExceeded):
        FedACD(NETWORK.levels, epsilon=1.0, delta=1e-6).fit(tables)
    assert not any(table.ledger.entries() for table in tables)


@pytest.mark.parametrize(("make", "levels"), [(discrete_tables, NETWORK.levels), (continuous_tables, None)])
def test_private_results_do_not_depend_on_the_order_of_columns(
    make: Callable[..., list[PrivateTable]], levels: Any
) -> None:
    first = FedACD(levels).fit(make())
    tables = make()
    order = np.random.default_rng(0).permutation(tables[0].n_columns)
    names = [tables[0].columns[j] for j in order]
    turned = FedACD(None if levels is None else [levels[j] for j in order]).fit([t.reordered(names) for t in tables])
    np.testing.assert_array_equal(first.adjacency_matrix_[np.ix_(order, order)], turned.adjacency_matrix_)


def test_private_moments_are_reused_for_nothing_and_alpha_follows_their_noise() -> None:
    model = FedACD().fit(continuous_tables())
    assert model.alpha_ == noisy_alpha(effective_rows(model.moments_), 6) > 0.01
    again = FedACD().fit(model.moments_)
    np.testing.assert_array_equal(again.skeleton_, model.skeleton_[np.ix_(*[np.argsort(list("fbdace"))] * 2)])
    assert again.privacy_spent_ == (0.0, 0.0) and again.alpha_ == model.alpha_
    stricter = FedACD(alpha=0.01).fit(model.moments_)
    assert stricter.alpha_ == 0.01 and stricter.skeleton_.sum() <= again.skeleton_.sum()


def test_the_noise_is_as_large_as_it_says() -> None:
    """Released less exact moments, over the stated deviations, on 20 x 20 blocks of entries."""
    exact = FedACD(NETWORK.levels, combine="sum").fit(discrete_tables(budget=None)).moments_
    noisy = FedACD(NETWORK.levels).fit(discrete_tables()).moments_
    assert exact.columns == noisy.columns
    upper = np.triu_indices(len(exact.columns))
    z = ((noisy.matrix - exact.matrix) / noisy.noise_sd)[upper]
    assert 0.9 < z.std() < 1.1 and abs(z.mean()) < 4 / np.sqrt(len(z))


def test_a_generous_budget_finds_what_no_privacy_finds() -> None:
    tables = discrete_tables(rows=5000, budget=Budget(epsilon=200.0, delta=1e-5))
    assert skeleton_f1(NETWORK.adjacency, FedACD(NETWORK.levels).fit(tables).skeleton_) > 0.9
    voted = FedACD(NETWORK.levels, combine="vote").fit(
        discrete_tables(rows=5000, budget=Budget(epsilon=200.0, delta=1e-5))
    )
    assert voted.layers_[0].masked > 0 and voted.bytes_exchanged_ > 0
    assert skeleton_f1(NETWORK.adjacency, voted.skeleton_) > 0.7


def test_preconditioned_rounds_are_paid_too() -> None:
    model = FedACD(release="preconditioned").fit(continuous_tables())
    assert model.privacy_spent_[0] <= 5.0
    with pytest.raises(InvalidParameter, match="row_norm"):
        FedACD(release="preconditioned", row_norm=3.0).fit(continuous_tables())


LEVELS = (2, 3, 2)


@pytest.mark.parametrize("relation", [NeighboringRelation.REPLACE_ONE, NeighboringRelation.ADD_OR_REMOVE_ONE])
@pytest.mark.parametrize("max_cond_vars", [0, 1])
def test_scores_of_votes_move_no_further_than_stated(relation: NeighboringRelation, max_cond_vars: int) -> None:
    query = DependenceScores(LEVELS, ~np.eye(3, dtype=bool), max_cond_vars)

    class Public:
        name, norm, kind = query.name, query.norm, query.kind

        def evaluate(self, rows: np.ndarray, n: int | None = None) -> np.ndarray:
            return query.evaluate(rows, 40)  # the public number, whoever is left

        def sensitivity(self, n: int, relation: NeighboringRelation = NeighboringRelation.REPLACE_ONE) -> float:
            return query.sensitivity(n, relation)

    report = search_sensitivity(
        Public(), 40, 3, low=[0, 0, 0], high=[1, 2, 1], evaluations=300, relation=relation, removal="plain"
    )
    assert report.verdict != "violated"


def test_the_bound_on_the_dependence_is_nearly_attained() -> None:
    """A record with a rare x and a rare y moves T by nearly 2; one that crosses over by nearly 4 in all strata."""
    counts = np.array([[400.0, 0], [0, 0]])
    more = counts.copy()
    more[1, 1] += 1
    moved = dependence(more[None, None]) - dependence(counts[None, None])
    assert 1.9 < moved[0] <= 2


def test_noisy_votes_pay_their_plan_and_keep_what_they_were_told() -> None:
    tables = discrete_tables(2, 1000)
    skeleton = voted_skeleton(tables, NETWORK.levels, (40, 25), 5.0, 1e-5)
    assert skeleton.sum() == 50 and np.array_equal(skeleton, skeleton.T)
    for table in tables:
        assert next(entry.kind for entry in table.ledger.entries()) == "reserve"
        assert table.ledger.spent()["epsilon"] <= 5.0
