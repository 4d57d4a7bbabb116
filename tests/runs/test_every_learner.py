"""Every learner of the registry, in one process and between machines: one outcome, or one refusal.

A new learner is in these tests by being registered.
"""

from __future__ import annotations

import dataclasses
import warnings
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from privfcd.accounting import Budget
from privfcd.algorithms.learner import Learner
from privfcd.algorithms.opening import Facts, PartyFacts
from privfcd.algorithms.registry import LEARNERS, learner_class
from privfcd.data.private import PrivateTable
from privfcd.errors import PartyFailed, PrivfcdError
from privfcd.mechanisms import SimulatedNoise
from privfcd.runs.study_run import NO_PRIVACY, run_study

from .conftest import COLUMNS, DELTA, PARTIES, SEED, Place, Wire

QUICK: dict[str, dict[str, Any]] = {"fed-sparse": {"rounds": 3, "updates": 5, "release": "auto"}, "fed-bnsl": {"rounds": 4}}
NOT_COMPARED = ("privacy_report_", "privacy_spent_", "notes_")


def plain(value: Any) -> Any:
    """Return a value as something that compares by what it holds, times left out."""
    if isinstance(value, nx.DiGraph):
        return list(value.nodes), sorted((*edge[:2], sorted(edge[2].items())) for edge in value.edges(data=True))
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, repr(value.tolist())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({each.name: getattr(value, each.name) for each in dataclasses.fields(value)})
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key != "seconds"}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return repr(value)


def results(model: Any) -> dict[str, Any]:
    names = [name for name in dir(model) if name.endswith("_") and not name.startswith("_") and name not in NOT_COMPARED]
    return {name: plain(getattr(model, name)) for name in names}


def said(caught: list[warnings.WarningMessage]) -> list[tuple[str, str]]:
    return sorted({(each.category.__name__, str(each.message)) for each in caught})


@pytest.mark.parametrize(
    "epsilon", [pytest.param(0.1, marks=pytest.mark.slow), 1.0, pytest.param(10.0, marks=pytest.mark.slow), None]
)
@pytest.mark.parametrize("method", LEARNERS)
def test_here_and_between_machines_alike(place: Place, method: str, epsilon: float | None) -> None:
    parameters = QUICK.get(method, {})
    budget = None if epsilon is None else Budget(epsilon, DELTA)
    tables = [
        PrivateTable(rows, COLUMNS, name=name, budget=budget, noise=SimulatedNoise(SEED))
        for name, rows in zip(PARTIES, place.parts, strict=True)
    ]
    learner: Any = learner_class(method)
    demand = {} if epsilon is None else {"epsilon": epsilon, "delta": DELTA}
    here, refusal = learner(**parameters, **demand), None
    with warnings.catch_warnings(record=True) as here_warned:
        warnings.simplefilter("always")
        try:
            here.fit(tables)
        except PrivfcdError as error:
            refusal = error

    document = {} if epsilon is None else {"budget": {"epsilon": epsilon, "delta": DELTA}}
    study = place.study(method, False, parameters=parameters, **document)
    place.ledgers(epsilon)
    logs: list[str] = []
    desks = {name: place.desk(study, name) for name in PARTIES}
    halves = {name: desk.party(log=logs.append) for name, desk in desks.items()}
    with warnings.catch_warnings(record=True) as there_warned:
        warnings.simplefilter("always")
        if refusal is not None:
            with pytest.raises((PartyFailed, type(refusal))) as caught:
                run_study(study, Wire(halves))
            words = f"{type(refusal).__name__}: {refusal}"  # the coordinator's, or for the owner's eyes only
            assert any(words in line for line in (f"{caught.typename}: {caught.value}", *logs)), (refusal, logs)
            assert all(place.spent(study, name) == 0 for name in PARTIES)
            return
        run = run_study(study, Wire(halves))
    there = run.model
    assert results(there) == results(here)
    assert list(there.notes_) == [*([NO_PRIVACY] if epsilon is None else []), *here.notes_]
    assert said(there_warned) == said(here_warned)
    for desk, report in zip(desks.values(), here.privacy_report_, strict=True):
        own = desk.report()
        assert own is not None and replace(own, head="") == replace(report, head="")


@pytest.mark.parametrize("method", LEARNERS)
def test_a_learner_states_what_it_rests_on_and_says_what_it_may_offer(method: str) -> None:
    kind: Any = learner_class(method)
    assert kind.method == method and all(sentence.endswith(".") for sentence in kind.rests_on)

    class Own(kind):  # type: ignore[misc]
        """A subclass, as of someone who changes a step."""

    assert Own.rests_on == kind.rests_on and Own().get_params() == kind().get_params()
    learner = kind()
    learner.check()
    learner.check_columns(COLUMNS)
    modules = {module.__name__ for module in kind.message_modules}
    for epsilon, parties in ((1.0, 1), (1.0, 3), (float("inf"), 1), (float("inf"), 3)):
        facts = Facts(learner.opening(COLUMNS).columns, (PartyFacts(100, epsilon, True, None, ()),) * parties)
        offers = learner.offers(facts)
        assert offers and {type(offer).__module__ for offer in offers} <= modules
    for each in (*kind.charging, *kind.ending):
        assert each.__module__ in modules
    charges = {f"{module}.Charge" for module in modules}  # no charge of a module of its messages is left out
    known = {f"{each.__module__}.Charge" for each in kind.charging}
    assert known <= charges


def test_a_learner_that_leaves_out_what_it_rests_on_cannot_be_defined() -> None:
    with pytest.raises(TypeError, match=r"must state .*rests_on"):

        class Silent(Learner):
            method = "silent"
            graph = "dag"
            weight = ""
            message_modules = ()
            charging = ()
            ending = ()
