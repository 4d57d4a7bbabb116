"""PERI and I-PERI on private tables: one charge before any row is read, or one for each distinct regret of a fixed plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from privfcd import IPERI, PERI, Budget, PrivateTable
from privfcd.accounting import ADD_OR_REMOVE_ONE, compose, epsilon_of, laplace_event
from privfcd.algorithms.peri import base
from privfcd.algorithms.peri.private_regrets import REGRETS, RegretOptions, private_parties
from privfcd.algorithms.peri.settings import Settings
from privfcd.algorithms.peri.sources import TableRegrets
from privfcd.algorithms.release import release_moments
from privfcd.algorithms.release.plan import COVARIANCE
from privfcd.data.regression_losses import RegressionLoss
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.ledger import PlanPart
from privfcd.mechanisms import SimulatedNoise

Tables = Callable[..., list[PrivateTable]]
BUDGET = Budget(5, 1e-5)
MODES: list[dict[str, Any]] = [{}, {"release": "covariance"}, {"privacy": "regret"}]


def bounded(tables: Tables, **options: Any) -> list[PrivateTable]:
    return tables(**{"budget": BUDGET, "bounds": 8.0, **options})


@pytest.mark.parametrize("options", MODES)
@pytest.mark.parametrize("make", [PERI, IPERI])
def test_rows_are_read_only_after_all_have_paid(
    tables: Tables, arm: Any, rows_touched: Any, make: Any, options: dict[str, Any]
) -> None:
    made = [arm(table) for table in bounded(tables)]
    with pytest.raises(rows_touched):
        make(**options).fit(made)
    assert all(table.ledger.spent()["epsilon"] > 4.9 for table in made)
    short = [arm(table) for table in bounded(tables, budget=[BUDGET, BUDGET, Budget(0.5, 1e-5)])]
    with pytest.raises(BudgetExceeded):
        make(epsilon=1.0, **options).fit(short)
    assert not any(table.ledger.entries() for table in short)


@pytest.mark.parametrize("options", MODES)
def test_what_is_wrong_is_found_before_a_charge(tables: Tables, arm: Any, options: dict[str, Any]) -> None:
    made = [arm(table) for table in bounded(tables)]
    for bad in ({"alpha": 2.0}, {"orientation": "meek"}, {"min_support": 0}, {"radius": 0.0}, {"graph_share": 0.0}):
        with pytest.raises(InvalidParameter):
            IPERI(**{**options, **bad}).fit(made)
    with pytest.raises(InvalidParameter, match="graphs"):
        IPERI(**options).fit(made, graphs=[np.zeros((4, 4))] * 3)
    assert not any(table.ledger.entries() for table in made)


@pytest.mark.parametrize("options", [{}, {"release": "covariance"}])
def test_after_the_moments_nothing_more_is_charged(tables: Tables, options: dict[str, Any]) -> None:
    made = bounded(tables, budget=[Budget(5, 1e-5), Budget(rho=0.5), Budget(2, 1e-6)])
    model = IPERI(delta=1e-6, **options).fit(made)
    assert model.privacy_report_ is not None and model.messages_ > 3
    for table, report in zip(made, model.privacy_report_, strict=True):
        assert report.party == table.name and all(part.planned == part.drawn == 1 for part in report.parts)
        assert not report.secure
    assert model.privacy_spent_[0] == max(report.epsilon for report in model.privacy_report_)
    assert (model.bytes_exchanged_ > 0)


def test_a_fit_to_released_moments_is_the_same_and_free(tables: Tables) -> None:
    options: dict[str, Any] = {"method": "covariance", "send": False, "center": True}
    parts = release_moments(bounded(tables), **options).parts
    paid = IPERI(release="covariance").fit(bounded(tables))
    free = IPERI().fit(parts)
    assert (free.cpdag_, free.phi_cpdag_) == (paid.cpdag_, paid.phi_cpdag_)
    assert free.privacy_report_ is None and free.privacy_spent_ == (0.0, 0.0)


@pytest.mark.parametrize("options", MODES)
def test_open_tables_are_charged_as_non_private(tables: Tables, options: dict[str, Any]) -> None:
    made = tables(bounds=8.0)
    model = IPERI(**options).fit(made)
    assert model.privacy_spent_[0] == math.inf
    assert all("NonPrivate" in str(table.ledger.entries()[0]) for table in made)


def private(tables: Tables, most: int, **each: Any) -> tuple[list[PrivateTable], list[Any], list[Any]]:
    made = bounded(tables, **each)
    options = RegretOptions(most, None, 2.0, 0.5, 0.5, None, None)
    parties, reservations, _ = private_parties(made, Settings(), options)
    return made, [party._source for party in parties], reservations


def test_each_distinct_regret_is_drawn_once_and_answered_alike(tables: Tables) -> None:
    _, sources, reservations = private(tables, 6)
    source, reservation = sources[0], reservations[0]
    own = (0, 1, 2, 0)
    first = source.regrets([(0, 2), (1, 1), (1, 4), (0, 2)], own)
    assert first[1] == 0.0 and first[0] == first[3]  # the party's own family, and the same question
    assert reservation.drawn() == {COVARIANCE: 1, REGRETS: 2}
    np.testing.assert_array_equal(source.regrets([(1, 4), (0, 2)], own), first[[2, 0]])
    assert reservation.drawn()[REGRETS] == 2
    source.regrets([(1, 4)], (0, 8, 2, 0))  # another base is another question
    assert reservation.drawn()[REGRETS] == 3


def test_beyond_the_plan_nothing_is_released(tables: Tables) -> None:
    _, sources, reservations = private(tables, 2)
    with pytest.raises(BudgetExceeded, match="3 new ones asked, 2 left of the plan"):
        sources[0].regrets([(0, 2), (0, 4), (0, 8)], (0, 0, 0, 0))
    assert reservations[0].drawn()[REGRETS] == 0


@pytest.mark.parametrize("relation", [None, ADD_OR_REMOVE_ONE])
def test_the_plan_costs_what_the_budget_is_and_draws_are_counted(tables: Tables, relation: Any) -> None:
    options = {} if relation is None else {"relation": relation, "declared_rows": 200}
    made = bounded(tables, **options)
    model = IPERI(privacy="regret", max_regrets=150).fit(made)
    assert model.privacy_report_ is not None
    for table, report in zip(made, model.privacy_report_, strict=True):
        assert [(part.label, part.planned) for part in report.parts] == [(COVARIANCE, 1), (REGRETS, 150)]
        assert 4.9 < report.epsilon <= 5 and 0 < report.parts[1].drawn <= 150
        assert 4.9 < table.ledger.spent()["epsilon"] <= 5
        assert report.declared["bounds"] == [8.0] * 4
    # a search asks for no more than what differs after masking
    assert max(report.parts[1].drawn for report in model.privacy_report_) <= model.regrets_


def test_the_noise_is_that_of_the_event(tables: Tables, spy: Any) -> None:
    table = bounded(tables, noise=spy)[0]
    multiplier = 40.0
    event = laplace_event(1.0, multiplier)
    reservation = table.ledger.reserve([PlanPart("r", event, 3)], delta=0.0)
    bounds = (8.0,) * 4
    source = TableRegrets(table, reservation, "r", multiplier, bounds, 2.0, 0.5)
    source.regrets([(0, 6)], (0, 0, 0, 0))
    query = RegressionLoss(0, (1, 2), (), bounds, 2.0, 0.5)
    assert source.rows == 200
    planned = reservation.event_named("r")
    assert planned.noise_multiplier == pytest.approx(multiplier)
    assert epsilon_of(compose([(planned, 3)]), 0.0) == pytest.approx(3 / multiplier, rel=1e-6)
    # a smaller scale than the plan's is refused before a row is read
    cheap = TableRegrets(table, reservation, "r", multiplier / 2, bounds, 2.0, 0.5)
    with pytest.raises(InvalidParameter, match="planned"):
        cheap.regrets([(0, 2)], (0, 0, 0, 0))
    assert query.sensitivity(200) > 0


def test_without_noise_a_tables_regret_is_the_clipped_one(tables: Tables) -> None:
    table = tables(bounds=8.0)[0]
    reservation = table.ledger.reserve([PlanPart("r", laplace_event(1.0, 0.0), 9)])
    source = TableRegrets(table, reservation, "r", 0.0, (8.0,) * 4, 2.0, 0.5)
    found = source.regrets([(2, 0b1010)], (0, 0, 2, 0))[0]
    exact = RegressionLoss(2, (1, 3), (1,), (8.0,) * 4, 2.0, 0.5).evaluate(table._rows, 200)[0]
    assert found == pytest.approx(exact + math.log(200) / 2)


def test_regret_noise_needs_bounds_and_takes_no_release_options(tables: Tables) -> None:
    with pytest.raises(InvalidParameter, match="value_bound"):
        IPERI(privacy="regret").fit(tables(budget=BUDGET))
    for bad in ({"release": "covariance"}, {"row_norm": 3.0}, {"center": True}):
        with pytest.raises(InvalidParameter):
            IPERI(privacy="regret", **bad).fit(bounded(tables))
    with pytest.raises(InvalidParameter, match="pure"):
        IPERI(privacy="regret").fit(bounded(tables, budget=Budget(5.0, 0.0)))
    IPERI(privacy="regret", value_bound=4.0).fit(tables(budget=BUDGET))


def test_a_released_run_finds_most_of_the_graph() -> None:
    from privfcd.datasets.interventions import unknown_interventions
    from privfcd.graphs import compare_pdags, phi_cpdag

    scores = []
    for seed in (2101, 2102, 2103):
        made = unknown_interventions(6, 4, 10_000, seed)
        parts = [PrivateTable(rows, budget=Budget(3, 1e-5), noise=SimulatedNoise(seed)) for rows in made.tables]
        model = IPERI().fit(parts)
        scores.append(compare_pdags(phi_cpdag(made.dag, made.targets, "unknown"), model.phi_cpdag_).f1)
    assert np.mean(scores) > 0.75


def test_both_estimators_know_their_parameters() -> None:
    for make in (PERI, IPERI):
        model = make(alpha=0.05)
        assert model.get_params()["alpha"] == 0.05 and isinstance(model, base._RegretLearner)
        assert repr(model) == f"{make.__name__}(alpha=0.05)"
        with pytest.raises(InvalidParameter):
            model.set_params(rounds=3)
