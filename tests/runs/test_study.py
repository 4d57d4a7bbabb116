"""Study files, what a party sees before it takes part, and the second cap on what a study may spend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from privfcd.accounting import Budget, gaussian_event
from privfcd.algorithms.registry import LEARNERS
from privfcd.errors import BudgetExceeded, InvalidParameter, InvalidTable
from privfcd.ledger import Ledger, MemoryJournal, PlanPart
from privfcd.runs.method import Method
from privfcd.runs.wire.study_file import read_study, study_from
from privfcd.runs.wire.study_ledger import StudyLedger

from .conftest import ROWS

GOOD: dict[str, Any] = {
    "schema": 1,
    "name": "trial",
    "method": "equal-variance",
    "parties": ["a", "b"],
    "columns": ["x", "y"],
    "budget": {"epsilon": 1.0, "delta": 1e-6},
}


def test_a_study_is_read_from_toml(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        'schema = 1\nname = "s"\nmethod = "pc"\nparties = ["a", "b"]\ncolumns = ["x", "y"]\nmin_parties = 1\nlog1p = true\n'
        "[bounds]\ny = 2\nx = 1.5\n[budget]\nepsilon = 2\ndelta = 1e-6\n[parameters]\nalpha = 0.05\n"
    )
    study = read_study(path)
    assert study.bounds == (1.5, 2.0) and study.log1p and study.min_parties == 1
    assert (study.epsilon, study.delta, dict(study.parameters)) == (2.0, 1e-6, {"alpha": 0.05})
    path.write_text("schema = ")
    with pytest.raises(InvalidParameter, match="not TOML"):
        read_study(path)
    with pytest.raises(InvalidParameter, match="cannot be read"):
        read_study(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"schema": 2}, "schema"),
        ({"rounds": 3}, "no other keys"),
        ({"parties": ["a", "a"]}, "parties"),
        ({"columns": []}, "columns"),
        ({"min_parties": 3}, "min_parties"),
        ({"budget": {"epsilon": 1.0}}, "budget"),
        ({"budget": {"epsilon": -1.0, "delta": 1e-6}}, "epsilon"),
        ({"bounds": {"x": 1.0}}, "bounds"),
        ({"bounds": 0}, "bounds"),
        ({"log1p": 1}, "log1p"),
        ({"method": ""}, "method"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidParameter, match=word):
        study_from({**GOOD, **change})


def test_the_digest_is_that_of_all_that_is_agreed() -> None:
    digest = study_from(GOOD).digest
    assert digest == study_from(dict(reversed(GOOD.items()))).digest
    changes: list[dict[str, Any]] = [
        {"columns": ["y", "x"]},
        {"budget": {"epsilon": 1.1, "delta": 1e-6}},
        {"parameters": {"level": 0.1}},
        {"parties": ["b", "a"]},
        {"bounds": 3.0},
    ]
    assert len({digest, *(study_from({**GOOD, **change}).digest for change in changes)}) == 1 + len(changes)


def test_methods_refuse_parameters_that_they_have_not() -> None:
    for method in LEARNERS:
        with pytest.raises(InvalidParameter, match="nonsense"):
            Method(study_from({**GOOD, "method": method, "parameters": {"nonsense": 1}}))
        with pytest.raises(InvalidParameter, match="epsilon"):
            Method(study_from({**GOOD, "method": method, "parameters": {"epsilon": 9.0}}))
    with pytest.raises(InvalidParameter, match="method"):
        Method(study_from({**GOOD, "method": "guess"}))
    with pytest.raises(InvalidParameter, match="release"):
        Method(study_from({**GOOD, "parameters": {"release": "exact"}}))


def test_a_party_sees_what_it_will_cost_and_pays_nothing_for_it(place: Any) -> None:
    study = place.study()
    place.ledgers()
    shown = place.desk(study, "south").preview()
    assert (shown["epsilon"], shown["delta"], shown["party"]) == (2.0, 1e-6, "south")
    assert "simulated" in shown["noise"] and shown["rows (public)"] == ROWS
    assert place.spent(study, "south") == 0


def test_a_party_that_cannot_pay_is_told_at_once(place: Any) -> None:
    study = place.study()
    place.ledgers(epsilon=1.0)
    with pytest.raises(BudgetExceeded, match="asked epsilon 2"):
        place.desk(study, "north").preview()
    with pytest.raises(InvalidParameter, match="one of the study's parties"):
        place.desk(study, "east")
    with pytest.raises(InvalidTable, match="v9"):
        place.desk(place.study(columns=["v0", "v9"]), "north")
    with pytest.raises(InvalidParameter, match="without privacy"):
        place.desk(place.study(private=False), "north")


def test_a_study_cannot_spend_more_than_it_demands() -> None:
    journal = MemoryJournal()
    ledger = Ledger(Budget(10.0, 1e-5), name="n", journal=journal)
    study = StudyLedger(ledger, 1.0, 1e-6)
    with pytest.raises(BudgetExceeded, match=r"the study demands 1$"):
        study.check([PlanPart("g", gaussian_event(1.0, 2.0), 1)], delta=1e-6)
    with pytest.raises(BudgetExceeded, match=r"the study demands 1$"):
        study.reserve([PlanPart("g", gaussian_event(1.0, 2.0), 1)], delta=1e-6)
    with pytest.raises(BudgetExceeded, match="demands 1e-06"):
        study.reserve([PlanPart("g", gaussian_event(1.0, 50.0), 1)], delta=1e-5)
    with pytest.raises(BudgetExceeded, match="as a whole"):
        study.charge(gaussian_event(1.0, 50.0))
    assert ledger.spent()["epsilon"] == 0
    study.reserve([PlanPart("g", gaussian_event(1.0, 50.0), 1)], delta=1e-6)
    assert 0 < ledger.spent()["epsilon"] <= 1
    with pytest.raises(BudgetExceeded, match="charged before"):
        study.reserve([PlanPart("g", gaussian_event(1.0, 50.0), 1)], delta=1e-6)
