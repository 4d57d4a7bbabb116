"""Rehearsals: bytes and time from synthetic rows, cut short where they are long, and nothing of the real tables."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import privfcd as pf
from privfcd.accounting import ADD_OR_REMOVE_ONE, gaussian_event
from privfcd.algorithms.local import LocalFederation
from privfcd.algorithms.protocol import Check, Message
from privfcd.algorithms.registry import LEARNERS, learner_class
from privfcd.errors import InvalidParameter
from privfcd.ledger import Ledger
from privfcd.runs import plan_run, rehearsal, size_text
from privfcd.runs.repeatable_noise import rehearsed

NAMES = ["age", "dose", "pressure"]
NOISE = pf.SimulatedNoise(5)
BUDGET = pf.Budget(epsilon=9, delta=1e-6)

pytestmark = pytest.mark.filterwarnings("ignore::privfcd.algorithms.equal_variance.estimator.EqualVarianceWarning")


def tables_of(**options: Any) -> list[pf.PrivateTable]:
    """Return tables of 300 and 200 rows, which have paid for a release before."""
    made = []
    for name, part in zip(
        ("north", "south"), pf.simulate.linear_gaussian(3, 2, [300, 200], seed=4).tables, strict=True
    ):
        ledger = Ledger(BUDGET, name=name)
        ledger.charge(gaussian_event(1.0, 20.0), "an earlier release")
        made.append(pf.PrivateTable(part, NAMES, ledger=ledger, noise=NOISE, **{"bounds": 9.0, **options}))
    return made


QUESTION = 0.01


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that only questions to the parties move: what a run takes is then the same on every machine."""
    now, ask = [0.0], LocalFederation.ask

    def asked(self: LocalFederation, message: Message, check: Check | None = None) -> list[Message]:
        now[0] += QUESTION
        return ask(self, message, check)

    monkeypatch.setattr(LocalFederation, "ask", asked)
    for module in ("plan", "rehearsal"):
        monkeypatch.setattr(f"privfcd.runs.{module}.time", SimpleNamespace(perf_counter=lambda: now[0]))
    return now


@pytest.mark.parametrize("method", LEARNERS)
def test_bytes_and_time_are_near_those_of_the_run(method: str, clock: list[float]) -> None:
    model = learner_class(method)(**({"rounds": 20} if method == "fed-bnsl" else {}))  # type: ignore[call-arg]
    tables = tables_of()
    plan = plan_run(model, tables)
    began = clock[0]
    model.fit(tables)  # type: ignore[attr-defined]
    took = clock[0] - began
    assert plan.bytes is not None and plan.seconds is not None
    sent = model.bytes_exchanged_  # type: ignore[attr-defined]
    assert 0.4 * sent - 100 <= plan.bytes <= 2.5 * sent + 100
    assert took / 2 <= plan.seconds <= took * 2
    assert "synthetic rows of 3 columns" in plan.notes[-1]


@pytest.mark.parametrize(
    ("parameters", "budget"),
    [
        ({"rounds": 3, "updates": 2}, BUDGET),
        ({"rounds": 30, "updates": 12}, BUDGET),
        ({"rounds": 12, "updates": 40, "keep": 0.0, "l1": 0.0, "refit_share": 0.0}, BUDGET),
        ({"rounds": 12, "updates": 40, "keep": 0.0, "l1": 0.0}, None),
        ({"rounds": 5, "updates": 3, "smoothness": [1.0] * 5}, BUDGET),
        ({"rounds": 1, "updates": 1, "center": True}, BUDGET),
    ],
)
def test_messages_whose_size_depends_on_what_is_learnt_are_bounded(parameters: dict[str, Any], budget: Any) -> None:
    parts = pf.simulate.linear_gaussian(5, 3, 300, seed=2).tables
    tables = [pf.PrivateTable(x, name=f"p{k}", budget=budget, bounds=9.0, noise=NOISE) for k, x in enumerate(parts)]
    model = pf.FedSparseBNSL(**parameters)
    plan = plan_run(model, tables, rehearse=parameters["rounds"] <= 5)
    sent = model.fit(tables).bytes_exchanged_
    assert plan.most_bytes is not None
    assert max(sent, plan.bytes or 0) <= plan.most_bytes == plan.as_dict()["most_bytes"]
    if parameters.get("l1") == 0.0 and budget is not None:
        assert sent > 0.8 * plan.most_bytes  # where noise fills the matrices, the bound is near
    said = f"Messages: at most {size_text(plan.most_bytes)}, and mostly less: it depends on what is learnt"
    assert (said in str(plan)) == (plan.bytes is not None)


def test_messages_of_a_known_size_have_no_bound() -> None:
    sparse = pf.FedSparseBNSL(rounds=2, updates=2, release="preconditioned")
    for model in (pf.PC(release="covariance"), pf.FedBNSL(rounds=2), sparse):
        plan = plan_run(model, tables_of())
        assert plan.most_bytes is None and "Messages: about " in str(plan)


def test_long_runs_are_cut_short_and_extended(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    monkeypatch.setattr(rehearsal, "MOST_SECONDS", 1.0)
    parts = pf.simulate.linear_gaussian(40, parties=2, rows=400, seed=4).tables
    names = [f"gene {j}" for j in range(40)]
    tables = [pf.PrivateTable(part, names, name=f"clinic {k}", noise=NOISE) for k, part in enumerate(parts)]
    for model, factor in ((pf.FedSparseBNSL(rounds=4000, fast=False), 100), (pf.FedBNSL(rounds=20000), 500)):
        began = clock[0]
        plan = plan_run(model, tables)
        took = clock[0] - began
        assert took < 2 * rehearsal.MOST_SECONDS and "rounds" in plan.notes[-1]
        whole = model.rounds * QUESTION
        assert plan.seconds is not None and 0.9 * whole <= plan.seconds <= 10 * whole
        assert plan.bytes is not None and plan.bytes > factor * 40 * 8
    plan = plan_run(pf.EqualVarianceSearch(), tables)
    assert plan.bytes is not None and plan.bytes < 2 * 2 * 3 * 40 * 40 * 8


def test_large_tables_are_rehearsed_on_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "MOST_CELLS", 600)
    tables = tables_of()
    model, made = rehearsal.synthetic(pf.PC(), tables, 3)
    assert [table.n_rows for table in made] == [120, 80] and repr(model) == "PC()"
    plan = plan_run(pf.EqualVarianceSearch(), tables)
    assert "from 200 rows in proportion; a rough guess, which" in plan.notes[-1]


def test_synthetic_tables_share_the_public_facts_only() -> None:
    tables = tables_of(
        relation=ADD_OR_REMOVE_ONE,
        declared_rows=250,
        bounds={"age": 90.0, "dose": 2.0, "pressure": 200.0},
    )
    _, made = rehearsal.synthetic(pf.PC(), tables, 2)
    for table, stand_in in zip(tables, made, strict=True):
        assert stand_in.columns == ("age", "dose") and stand_in.bounds == (90.0, 2.0)
        assert (stand_in.name, stand_in.n_rows, stand_in.noise) == (table.name, 250, table.noise)
        assert stand_in.relation is table.relation and stand_in.ledger is not table.ledger
        assert stand_in.ledger.left() == table.ledger.left() and stand_in.ledger.spent() == table.ledger.spent()


def test_moments_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = pf.simulate.linear_gaussian(12, parties=2, rows=300, seed=4).tables
    tables = [
        pf.PrivateTable(part, name=f"clinic {k}", budget=pf.Budget(rho=2.0), noise=NOISE)
        for k, part in enumerate(parts)
    ]
    moments = pf.release_moments(tables).parts
    plan = plan_run(pf.GES(), list(moments))
    assert plan.parties == [] and "costs nothing" in plan.notes[0] and plan.seconds is not None
    assert "epsilon" not in plan.parameters and plan.bytes == 0
    with pytest.raises(InvalidParameter, match="epsilon"):
        plan_run(pf.GES(epsilon=1.0), list(moments))
    assert plan_run(pf.FedSparseBNSL(rounds=3), moments[0]).rounds == 3
    with pytest.raises(InvalidParameter, match="levels must be"):
        plan_run(pf.FedACD(levels=3), list(moments))


def test_moments_of_discrete_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    part = np.random.default_rng(1).integers(0, 3, (300, 3)).astype(float)
    model = pf.FedACD(levels=dict.fromkeys(NAMES, 3))
    fitted = model.fit([pf.PrivateTable(part, NAMES, name="ward", budget=pf.Budget(rho=1.0), noise=NOISE)])
    plan = plan_run(model, fitted.moments_)
    assert plan.seconds is not None and plan.parties == []
    monkeypatch.setattr(rehearsal, "MOST_ENCODED", 5)
    assert plan_run(model, fitted.moments_).notes[-1] == "bytes and time are not known for 7 encoded columns"


def test_a_rehearsal_that_fails_costs_the_estimate_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise np.linalg.LinAlgError("singular")

    monkeypatch.setattr(rehearsal, "_run", failing)
    plan = plan_run(pf.PC(), tables_of())
    assert plan.bytes is plan.seconds is None and plan.parties[0].epsilon <= 9
    assert plan.notes[-1] == "bytes and time are not known: the rehearsal ended with: singular"


@pytest.mark.parametrize("release", ["coordinates", "preconditioned"])
def test_a_plan_with_secure_noise_says_the_same_bytes_again(release: str) -> None:
    """How many coordinates a round sends is decided by its noise: that of a rehearsal is seeded."""
    rows = pf.simulate.linear_gaussian(4, parties=2, rows=300, seed=4).tables

    def planned() -> int | None:
        tables = [
            pf.PrivateTable(part, name=f"clinic {k}", budget=pf.Budget(epsilon=20.0, delta=1e-5), bounds=9.0)
            for k, part in enumerate(rows)
        ]
        plan = plan_run(pf.FedSparseBNSL(rounds=6, release=release), tables)
        assert all(party.secure for party in plan.parties)
        return plan.bytes

    first = planned()
    assert first is not None and [planned() for _ in range(4)] == 4 * [first]


def test_noise_of_a_rehearsal_is_repeatable_and_never_called_secure() -> None:
    secure, own = pf.SecureNoise(), pf.SimulatedNoise(1)
    assert rehearsed(own, 0) is own
    made = [rehearsed(secure, party) for party in (0, 0, 1)]
    made.append(pickle.loads(pickle.dumps(made[0])))
    drawn = [source.stream(3).gaussian(np.zeros(5), 1.0).tolist() for source in made]
    assert drawn[0] == drawn[1] == drawn[3] != drawn[2]
    assert not any(source.secure for source in made) and made[0].stream(1) is made[0].stream(2)


def test_bytes_do_not_depend_on_where_the_clock_cut_the_rounds() -> None:
    sent = np.cumsum(np.random.default_rng(1).integers(50, 90, 100))

    def extended(seen: int) -> float:
        watch = rehearsal._Watch(1.0)
        watch.rounds = 100
        watch.marks = [(0.01 * k, int(sent[k])) for k in range(seen)]
        seconds, total = watch.extended()
        assert seconds == pytest.approx(0.99)
        return total

    assert extended(30) == extended(75) == extended(82) == pytest.approx(sent[-1], rel=0.1)
    assert extended(3) == extended(9) and extended(10) == extended(29)
