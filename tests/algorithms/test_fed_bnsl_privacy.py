"""DP-Fed-BNSL: one release a party, paid as a whole before rows are read; the rest is post-processing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from privfcd.accounting import ADD_OR_REMOVE_ONE, Budget
from privfcd.algorithms.fed_bnsl import FedBNSL, messages, reconstructed_moments
from privfcd.algorithms.release import release_moments
from privfcd.algorithms.usable import usable
from privfcd.data.private import PrivateTable
from privfcd.errors import BudgetExceeded, InvalidParameter, InvalidTable
from privfcd.graphs.dag import is_acyclic
from privfcd.moments import Moments
from tests.support.helpers import wiretapped

Tables = Callable[..., list[PrivateTable]]
BUDGET = Budget(5, 1e-5)


def test_every_party_is_charged_once_and_within_its_budget(tables: Tables) -> None:
    made = tables(budget=[Budget(5, 1e-5), Budget(rho=0.5), Budget(2, 1e-6)], bounds=8.0)
    fitted = FedBNSL(rounds=5, center=False).fit(made)
    assert fitted.privacy_report_ is not None and is_acyclic(fitted.adjacency_matrix_)
    for table, report in zip(made, fitted.privacy_report_, strict=True):
        assert [part.planned for part in report.parts] == [1] == [part.drawn for part in report.parts]
        assert report.party == table.name and report.declared["rows"] == 200 and not report.secure
    spent = [table.ledger.spent() for table in made]
    assert 4.9 < spent[0]["epsilon"] <= 5 and 0.49 < spent[1]["rho"] <= 0.5 and 1.9 < spent[2]["epsilon"] <= 2
    epsilon, delta = fitted.privacy_spent_
    assert epsilon == max(report.epsilon for report in fitted.privacy_report_)
    assert delta == max(report.delta for report in fitted.privacy_report_)


def test_only_what_is_asked_for_is_spent(tables: Tables) -> None:
    made = tables(budget=BUDGET, bounds=8.0)
    fitted = FedBNSL(rounds=2, epsilon=1.0, delta=1e-7).fit(made)
    assert fitted.privacy_spent_[0] <= 1 and fitted.privacy_spent_[1] == 1e-7
    assert all(0.9 < table.ledger.spent()["epsilon"] <= 1 for table in made)
    FedBNSL(rounds=2, epsilon=1.0, delta=1e-7).fit(made)
    assert all(1.9 < table.ledger.spent()["epsilon"] <= 2 for table in made)


def test_rows_are_read_only_after_all_have_paid(tables: Tables, arm: Any, rows_touched: Any) -> None:
    made = [arm(table) for table in tables(budget=BUDGET, bounds=8.0)]
    with pytest.raises(rows_touched):
        FedBNSL().fit(made)
    assert all(table.ledger.spent()["epsilon"] > 4.9 for table in made)
    short = tables(budget=[BUDGET, BUDGET, Budget(0.5, 1e-5)], bounds=8.0)
    with pytest.raises(BudgetExceeded):
        FedBNSL(epsilon=1.0).fit([arm(table) for table in short])
    assert not any(table.ledger.entries() for table in short)


@pytest.mark.parametrize(
    "parameters",
    [
        {"rounds": 0},
        {"l1": -0.1},
        {"rho1": 0},
        {"rho2": math.inf},
        {"growth": 0.9},
        {"rho1_max": -1},
        {"threshold": -1},
        {"local_step": "newton"},
        {"steps": 0},
        {"radius": 0},
        {"center": "yes"},
        {"row_norm": -1},
        {"epsilon": 0},
        {"delta": 2},
    ],
)
def test_bad_parameters_are_refused_before_a_charge(tables: Tables, arm: Any, parameters: dict[str, Any]) -> None:
    made = [arm(table) for table in tables(budget=BUDGET, bounds=8.0)]
    with pytest.raises(InvalidParameter, match=next(iter(parameters))):
        FedBNSL(**parameters).fit(made)
    assert not any(table.ledger.entries() for table in made)


def test_bad_sources_are_refused_before_a_charge(tables: Tables, parts: list[np.ndarray]) -> None:
    made = tables(budget=BUDGET, bounds=8.0)
    for wrong in ([], made[0], "abc", [parts[0]], [*made, Moments(np.eye(4), 9, ("a", "b", "c", "d"))]):
        with pytest.raises(InvalidParameter):
            FedBNSL().fit(wrong)
    with pytest.raises(InvalidParameter, match="ledger each"):
        FedBNSL().fit([made[0], made[0]])
    with pytest.raises(InvalidTable, match="other columns"):
        FedBNSL().fit([made[0], *tables(budget=BUDGET, columns=("a", "b", "c", "z"))])
    with pytest.raises(InvalidParameter, match="row_norm must be left"):
        FedBNSL(row_norm=3.0).fit(Moments(np.eye(4), 9, ("a", "b", "c", "d")))
    assert not any(table.ledger.entries() for table in made)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("bounds", [None, 8.0])
def test_the_run_is_post_processing_of_the_release(
    tables: Tables, many: list[np.ndarray], bounds: float | None, center: bool
) -> None:
    """The same noise streams give the same moments: a fit to them is the fit to the tables."""
    fitted = FedBNSL(rounds=6, center=center).fit(tables(many, budget=BUDGET, bounds=bounds))
    made = tables(many, budget=BUDGET, bounds=bounds)
    release = release_moments(made, method="covariance", send=False, center=center)
    spent = [table.ledger.spent() for table in made]
    other = FedBNSL(rounds=6).fit(list(release.parts))
    np.testing.assert_array_equal(fitted.adjacency_matrix_, other.adjacency_matrix_)
    assert [table.ledger.spent() for table in made] == spent and other.privacy_report_ is None


def test_messages_give_away_no_more_than_was_released(
    tables: Tables, parts: list[np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = wiretapped(monkeypatch, messages)
    FedBNSL(rounds=1, center=False).fit(tables(budget=BUDGET, bounds=8.0))
    made = release_moments(tables(budget=BUDGET, bounds=8.0), method="covariance", send=False, center=False).parts
    released, _ = usable(made)
    (answers,) = [answers for message, answers in passed if isinstance(message, messages.Round)]
    for part, moments, answer in zip(parts, released, answers, strict=True):
        zero = np.zeros((4, 4))
        found = reconstructed_moments(answer.weights.dense(), zero, zero, 1.0)
        np.testing.assert_allclose(found, moments.repaired().matrix, atol=1e-8)
        assert not np.isclose(found, part.T @ part / len(part), rtol=1e-3).any()


def test_neighbours_by_addition_and_removal(tables: Tables) -> None:
    made = tables(budget=BUDGET, bounds=8.0, relation=ADD_OR_REMOVE_ONE, declared_rows=210)
    fitted = FedBNSL(rounds=3).fit(made)
    assert fitted.privacy_report_ is not None
    assert all("add or remove" in report.relation for report in fitted.privacy_report_)
    assert all(report.declared["rows"] == 210 for report in fitted.privacy_report_)


def test_with_much_budget_the_graph_is_found(tables: Tables, many: list[np.ndarray]) -> None:
    fitted = FedBNSL(rounds=40, row_norm=8.0).fit(tables(many, budget=Budget(20, 1e-6)))
    assert set(fitted.causal_graph_.edges) == {("a", "b"), ("b", "c"), ("d", "c"), ("a", "d")}
    assert fitted.privacy_report_ is not None
    assert all(report.declared["row_norm"] == 8.0 for report in fitted.privacy_report_)


def test_open_tables_may_stand_beside_private_ones(tables: Tables) -> None:
    made = tables(budget=[None, BUDGET, None], bounds=8.0)
    fitted = FedBNSL(rounds=3).fit(made)
    assert fitted.privacy_spent_[0] == math.inf
    assert fitted.privacy_report_ is not None
    assert [math.isinf(report.epsilon) for report in fitted.privacy_report_] == [True, False, True]
