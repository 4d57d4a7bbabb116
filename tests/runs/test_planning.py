"""Plans: what they say is what a run then does, and making one changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfcd as pf
from privfcd.accounting import ADD_OR_REMOVE_ONE, gaussian_event
from privfcd.algorithms.base import Estimator
from privfcd.algorithms.registry import LEARNERS, learner_class
from privfcd.data.private import RowsWanted
from privfcd.errors import BudgetExceeded, InvalidParameter, InvalidTable
from privfcd.ledger import Ledger, PlanPart
from privfcd.ledger.tools import init_ledger, open_ledger, verify
from privfcd.runs import RunPlan, plan_run, rehearsal
from privfcd.runs.defaults import ALL_LEFT, RELEASED, defaults_of
from privfcd.runs.run_plan import size_text, time_text

NAMES = ["age", "dose", "pressure"]
SPARSE: dict[str, Any] = {"rounds": 2, "updates": 3}
QUICK: dict[str, dict[str, Any]] = {"fed-sparse": SPARSE, "fed-bnsl": {"rounds": 3}}
NOISE = pf.SimulatedNoise(5)

pytestmark = pytest.mark.filterwarnings("ignore::privfcd.algorithms.equal_variance.estimator.EqualVarianceWarning")


def rows(seed: int, n: int = 300) -> np.ndarray:
    values = np.random.default_rng(seed).normal(size=(n, 3))
    values[:, 1] += 1.5 * values[:, 0]
    return values


def spent(budget: pf.Budget | None, name: str, state: str) -> Ledger:
    """Return a ledger that is fresh, has paid for a slice, or pays release by release."""
    ledger = Ledger(budget, name=name)
    if state == "a slice":
        part = PlanPart("before", gaussian_event(1.0, 20.0), 3)
        ledger.reserve([part], "an earlier run", delta=None if budget is None or budget.rho else 1e-7)
    elif state == "adaptive":
        ledger.charge(gaussian_event(1.0, 9.0), "an earlier release")
    return ledger


def tables_of(
    make: Callable[[str], Ledger], parts: list[np.ndarray] | None = None, **options: Any
) -> list[pf.PrivateTable]:
    parts = [rows(1), rows(2, 200)] if parts is None else parts
    options = {"bounds": 9.0, "noise": NOISE, **options}
    return [
        pf.PrivateTable(part, NAMES, ledger=make(name), **options)
        for part, name in zip(parts, ("north", "south"), strict=True)
    ]


def agree(plan: RunPlan, model: Any) -> None:
    """Check a plan against the reports of the run that it was made for."""
    assert len(plan.parties) == len(model.privacy_report_)
    for party, report in zip(plan.parties, model.privacy_report_, strict=True):
        assert party.party == report.party and party.rows == report.declared["rows"]
        assert [(p.label, p.event, p.count, p.remark) for p in party.parts] == [
            (p.label, p.event, p.planned, p.remark) for p in report.parts
        ]
        assert (party.epsilon, party.delta, party.rho) == (report.epsilon, report.delta, report.rho)
        assert (party.budget, party.noise, party.secure) == (report.budget, report.noise, report.secure)
        if all(part.drawn == part.planned for part in report.parts):
            assert party.left_after == report.left


BUDGETS = [
    pytest.param(pf.Budget(epsilon=5, delta=1e-6), "fresh", {}, id="approximate"),
    pytest.param(
        pf.Budget(epsilon=8, delta=1e-6), "a slice", {"epsilon": 3.0}, id="a slice before, a part of the rest"
    ),
    pytest.param(pf.Budget(epsilon=6, delta=1e-6), "adaptive", {}, id="adaptive"),
    pytest.param(pf.Budget(rho=0.8), "fresh", {}, id="zCDP"),
    pytest.param(pf.Budget(rho=0.8), "a slice", {"epsilon": 3.0, "delta": 1e-6}, id="zCDP, epsilon asked"),
    pytest.param(None, "fresh", {}, id="open"),
]


@pytest.mark.parametrize("method", LEARNERS)
@pytest.mark.parametrize(("budget", "state", "asked"), BUDGETS)
def test_a_plan_is_what_the_run_then_reports(
    method: str, budget: pf.Budget | None, state: str, asked: dict[str, Any]
) -> None:
    model = learner_class(method)(**QUICK.get(method, {}), **asked)  # type: ignore[call-arg]
    tables = tables_of(lambda name: spent(budget, name, state))
    before = [(table.ledger.entries(), table.ledger.spent_units()) for table in tables]
    plan = plan_run(model, tables, rehearse=False)
    assert [(table.ledger.entries(), table.ledger.spent_units()) for table in tables] == before
    assert plan.bytes is plan.seconds is None and not hasattr(model, "causal_graph_")
    agree(plan, model.fit(tables))  # type: ignore[attr-defined]


OPTIONS = [
    ("fed-sparse", {**SPARSE, "release": "preconditioned"}, {}),
    ("fed-sparse", {**SPARSE, "release": "auto"}, {}),
    ("fed-sparse", {**SPARSE, "center": True, "refit_share": 0.0, "loss": pf.algorithms.HuberLoss(2.0)}, {"bounds": None}),
    ("fed-sparse", {**SPARSE, "mechanisms": "mangold-proven", "smoothness": [1.0, 3.0, 1.0]}, {}),
    ("fed-sparse", {**SPARSE, "noise_multiplier": 30.0}, {}),
    ("fed-bnsl", {"rounds": 2, "row_norm": 5.0, "center": True}, {}),
    ("notears", {"release": "covariance"}, {"bounds": None}),
    ("ges", {"center": False}, {"relation": ADD_OR_REMOVE_ONE, "declared_rows": 250}),
    ("fedacd", {"sum": "trusted"}, {}),
    ("peri", {"privacy": "regret", "max_regrets": 60}, {}),
    ("iperi", {"release": "covariance"}, {}),
]


@pytest.mark.parametrize(("method", "parameters", "options"), OPTIONS)
def test_options_are_planned_as_they_run(method: str, parameters: dict[str, Any], options: dict[str, Any]) -> None:
    model = learner_class(method)(**parameters)  # type: ignore[call-arg]
    plan_of = [rows(1, 400), rows(2, 400)]
    budget = pf.Budget(epsilon=9, delta=1e-6)
    tables = tables_of(lambda name: Ledger(budget, name=name), plan_of, **options)
    plan = plan_run(model, tables, rehearse=False)
    model.fit(tables)  # type: ignore[attr-defined]
    agree(plan, model)
    assert plan.parties[0].noise == NOISE.label and any("SIMULATED" in note for note in plan.notes)


@pytest.mark.parametrize("method", LEARNERS)
def test_a_federation_of_open_and_private_tables(method: str) -> None:
    budgets = {"north": None, "south": pf.Budget(epsilon=9, delta=1e-6)}
    model = learner_class(method)(**QUICK.get(method, {}))  # type: ignore[call-arg]
    tables = tables_of(lambda name: Ledger(budgets[name], name=name))
    plan = plan_run(model, tables)
    assert any("NO PRIVACY for north:" in note for note in plan.notes)
    agree(plan, model.fit(tables))  # type: ignore[attr-defined]


@pytest.mark.parametrize("budget", [pf.Budget(epsilon=9, delta=1e-6), None])
def test_discrete_columns(budget: pf.Budget | None) -> None:
    parts = [np.random.default_rng(seed).integers(0, 3, (300, 3)).astype(float) for seed in (1, 2)]
    model = pf.FedACD(levels={"age": 3, "dose": 3, "pressure": 4})
    tables = tables_of(lambda name: Ledger(budget, name=name), parts, bounds=None)
    plan = plan_run(model, tables)
    assert plan.bytes and plan.seconds
    agree(plan, model.fit(tables))
    encoded = [table.encoded(pf.data.encoding.Contrasts((3, 3, 4))) for table in tables_of(_fresh, parts, bounds=None)]
    rest = pf.EqualVarianceSearch()
    agree(plan_run(rest, encoded, rehearse=False), rest.fit(encoded))


def _fresh(name: str) -> Ledger:
    return Ledger(pf.Budget(epsilon=9, delta=1e-6), name=name)


class Untouchable:
    """Stands where rows are, and refuses whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the rows were asked for {name}")

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError("the rows were read")

    def __len__(self) -> int:
        raise AssertionError("the rows were counted")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("the rows were read")


@pytest.mark.parametrize("method", LEARNERS)
def test_no_row_is_read(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "MOST_SECONDS", 0.0)
    model = learner_class(method)(**QUICK.get(method, {}))  # type: ignore[call-arg]
    with_rows, without = tables_of(_fresh), tables_of(_fresh)
    for table in without:
        table._rows = Untouchable()  # type: ignore[assignment]
    plans = [plan_run(model, tables).as_dict() for tables in (with_rows, without)]
    assert all(plan.pop("seconds") and plan.pop("bytes") for plan in plans)
    assert plans[0] == plans[1]


@pytest.mark.parametrize("method", ["fed-sparse", "ges"])
def test_a_plan_changes_nothing_of_a_later_run(method: str) -> None:
    fitted = []
    for planned in (False, True):
        model = learner_class(method)(**QUICK.get(method, {}))  # type: ignore[call-arg]
        tables = tables_of(_fresh)
        if planned:
            plan_run(model, tables)
            plan_run(model, tables, rehearse=False)
        state = np.random.get_state()[1].copy()  # noqa: NPY002
        fitted.append(model.fit(tables))  # type: ignore[attr-defined]
        assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    np.testing.assert_array_equal(fitted[0].adjacency_matrix_, fitted[1].adjacency_matrix_)
    assert fitted[0].privacy_report_ == fitted[1].privacy_report_


def test_stored_ledgers_stay_byte_for_byte(tmp_path: Path) -> None:
    budget = pf.Budget(epsilon=9, delta=1e-6)
    for name in ("north", "south"):
        init_ledger(tmp_path / f"{name}.sqlite", name, budget)
    model = pf.FedSparseBNSL(**SPARSE, epsilon=4.0)
    model.fit(tables_of(lambda name: open_ledger(tmp_path / f"{name}.sqlite", name)))
    tables = tables_of(lambda name: open_ledger(tmp_path / f"{name}.sqlite", name))
    contents = {path: path.read_bytes() for path in sorted(tmp_path.iterdir())}
    heads = [table.ledger.head() for table in tables]
    plan = plan_run(model, tables)
    assert {path: path.read_bytes() for path in sorted(tmp_path.iterdir())} == contents
    assert [table.ledger.head() for table in tables] == heads
    assert all(
        verify(tmp_path / f"{name}.sqlite", head).ok for name, head in zip(("north", "south"), heads, strict=True)
    )
    again = pf.FedSparseBNSL(**SPARSE, epsilon=4.0).fit(tables)
    agree(plan, again)
    assert plan.parties[0].spend["epsilon"] == pytest.approx(4.0)
    assert plan.parties[0].left_before.startswith("(epsilon, delta) = (5,")


@pytest.mark.parametrize("method", LEARNERS)
def test_refusals_are_those_of_the_run(method: str) -> None:
    def raised(act: Callable[[], Any]) -> tuple[type[Exception], str]:
        with pytest.raises((BudgetExceeded, InvalidParameter)) as caught:
            act()
        return caught.type, str(caught.value)

    few = {**QUICK.get(method, {})}
    for budget, parameters in (
        (pf.Budget(epsilon=1, delta=1e-9), {"epsilon": 2.0}),
        (pf.Budget(epsilon=1), {}),
        (pf.Budget(rho=0.5), {"epsilon": 1.0}),
        (pf.Budget(epsilon=1e-4, delta=1e-9), {}),
    ):
        model = learner_class(method)(**few, **parameters)  # type: ignore[call-arg]
        tables = tables_of(lambda name, budget=budget: Ledger(budget, name=name), bounds=None)
        planned = raised(lambda model=model, tables=tables: plan_run(model, tables))
        assert planned == raised(lambda model=model, tables=tables: model.fit(tables))
        assert not tables[0].ledger.entries()


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="tables must be a non-empty list"):
        plan_run(pf.PC(), [])
    with pytest.raises(InvalidTable, match="other columns"):
        plan_run(pf.PC(), [*tables_of(_fresh)[:1], pf.PrivateTable(rows(3), ["a", "b", "c"])])
    with pytest.raises(InvalidParameter, match="alpha"):
        plan_run(pf.PC(alpha=2.0), tables_of(_fresh))

    class Careless(Estimator):
        def __init__(self) -> None:
            super().__init__()

        def fit(self, tables: list[pf.PrivateTable]) -> Careless:
            return self

    with pytest.raises(InvalidParameter, match="must reserve its whole run once"):
        plan_run(Careless(), tables_of(_fresh))

    class Sly(Careless):
        """Its reservation is not all that it charges."""

        def fit(self, tables: list[pf.PrivateTable]) -> Sly:
            for table in tables:
                table.ledger.reserve([PlanPart("answers", gaussian_event(1.0, 20.0), 3)])
                table.ledger.charge(gaussian_event(1.0, 20.0), "one more")
            return self

    with pytest.raises(InvalidParameter, match="charge nothing else"):
        plan_run(Sly(), tables_of(lambda name: Ledger(pf.Budget(rho=0.5), name=name)))


def test_a_table_without_rows_says_so_and_leaves_the_other_alone() -> None:
    (table, _) = tables_of(_fresh)
    empty = table.without_rows(Ledger(pf.Budget(rho=1.0), name="scratch"))
    assert (empty.columns, empty.n_rows, empty.bounds) == (table.columns, table.n_rows, table.bounds)
    query = pf.data.queries.ClippedMean((9.0, 9.0, 9.0))
    with pytest.raises(RowsWanted):
        empty.release(query, pf.Gaussian(1.0))
    assert empty.ledger.spent()["rho"] > 0 and table.ledger.spent() == {"epsilon": 0.0, "delta": 0.0}
    assert table.release(query, pf.Gaussian(1e3)).shape == (3,)


def test_parameters_left_out_are_resolved() -> None:
    private, opened = tables_of(_fresh), tables_of(lambda name: Ledger(None, name=name))
    found = plan_run(pf.FedSparseBNSL(), private, rehearse=False)
    assert (found.rounds, found.updates) == (found.parameters["rounds"], found.parameters["updates"]) == (100, 7)
    assert found.parameters["clip"] == RELEASED and found.parameters["epsilon"] == ALL_LEFT
    assert found.parameters["step"] == 1.0 and found.parameters["keep"] == 0.05
    assert found.notes[-1].endswith("columns: rounds = 100, updates = 7, step = 1.0, keep = 0.05")
    assert plan_run(pf.PC(), private, rehearse=False).notes[1:] == []
    assert defaults_of(pf.FedSparseBNSL(), opened)["updates"] == 15
    assert defaults_of(pf.FedSparseBNSL(rounds=7, clip=3.0), private)["clip"] == 3.0
    assert defaults_of(pf.FedBNSL(), private)["l1"] == 2 / 16
    assert plan_run(pf.GES(), private, rehearse=False).parameters["release"] == "preconditioned"
    assert plan_run(pf.GES(), opened, rehearse=False).parameters["release"] == "exact"
    centred = plan_run(pf.PERI(), private, rehearse=False).parameters
    assert centred["center"] is True and centred["row_norm"].startswith("none")
    votes = plan_run(pf.FedACD(), opened, rehearse=False).parameters
    assert (votes["alpha"], votes["combine"]) == (0.01, "vote")
    assert plan_run(pf.FedACD(), private, rehearse=False).parameters["combine"] == "sum"
    norm = plan_run(pf.NOTEARS(release="covariance"), private, rehearse=False).parameters["row_norm"]
    assert norm == "the norm of the declared bounds"


def test_a_plan_is_printed_and_stored() -> None:
    plan = plan_run(pf.FedSparseBNSL(**SPARSE), tables_of(_fresh), rehearse=False)
    text = str(plan)
    pieces = [
        "nothing was charged, and it depends on no record",
        "north, 300 rows: epsilon = 9 at",
        "     6  coordinate selection",
    ]
    pieces += ["Gaussian, ", "exponential mechanism, ", " x sensitivity", "; after: nothing", "as those of north"]
    for piece in [*pieces, "Rounds: 2, of 3 updates each"]:
        assert piece in text
    stored = json.loads(json.dumps(plan.as_dict(), allow_nan=False))
    assert stored["parties"][1]["party"] == "south" and stored["parties"][0]["parts"][0]["count"] == 1
    assert stored["parties"][0]["spend"]["epsilon"] == plan.parties[0].spend["epsilon"] <= 9
    opened = plan_run(pf.FedSparseBNSL(**SPARSE), tables_of(lambda name: Ledger(None, name=name)), rehearse=False)
    assert opened.as_dict()["parties"][0]["epsilon"] == "inf" and "epsilon = inf: exact answers" in str(opened)
    assert any("NO PRIVACY for north, south" in note for note in opened.notes)
    selection, update = plan.parties[0].parts[-2:]
    assert "selection" in selection.label and "Gaussian" in update.event
    assert sum(part.share or 0.0 for part in plan.parties[0].parts) == pytest.approx(1.0)
    assert selection.share == pytest.approx(update.share, rel=0.02)
    assert selection.noise_multiplier == pytest.approx(update.noise_multiplier)


def test_releases_that_are_listed_above_are_named_by_the_first_party() -> None:
    tables = [
        pf.PrivateTable(
            rows(seed), NAMES, name=name, bounds=9.0, noise=NOISE, budget=pf.Budget(epsilon=budget, delta=1e-6)
        )
        for seed, (name, budget) in enumerate({"royal": 9, "stmary": 9, "county": 5, "city": 9, "old": 5}.items())
    ]
    text = str(plan_run(pf.PC(), tables, rehearse=False))
    assert text.count("as those of royal") == 2 and text.count("as those of county") == 1
    assert text.count("times  release") == 2


def test_what_pays_for_which_table_is_said() -> None:
    pairs = ["n.csv -> n.sqlite", "s.csv -> s.sqlite"]
    plan = plan_run(pf.PC(), tables_of(_fresh), rehearse=False, sources=pairs)
    assert [party["source"] for party in plan.as_dict()["parties"]] == pairs
    assert all(f"  table -> ledger: {pair}\n" in str(plan) for pair in pairs)
    assert "table -> ledger" not in str(plan_run(pf.PC(), tables_of(_fresh), rehearse=False))
    for wrong in (pairs[:1], "ab"):
        with pytest.raises(InvalidParameter, match="sources must be one text for each of 2 tables"):
            plan_run(pf.PC(), tables_of(_fresh), sources=wrong)


def test_a_delta_that_allows_to_publish_records_is_warned_of() -> None:
    def notes(delta: float) -> list[str]:
        budget = pf.Budget(epsilon=9, delta=delta)
        tables = tables_of(lambda name: Ledger(budget, name=name))
        return [note for note in plan_run(pf.PC(), tables, rehearse=False).notes if "1/n" in note]

    assert notes(1 / 301) == []
    (said,) = notes(1 / 300)
    assert "north (delta = 0.00334, n = 300)" in said and "south" not in said and "publish whole records" in said
    assert "south (delta = 0.01, n = 200)" in notes(0.01)[0]
    opened = tables_of(lambda name: Ledger(None, name=name))
    assert not any("1/n" in note for note in plan_run(pf.PC(), opened, rehearse=False).notes)


def test_levels_that_are_merged_are_said() -> None:
    parts = [np.zeros((300, 3)), np.ones((300, 3))]
    tables = tables_of(_fresh, parts, bounds=None)
    said = [note for note in plan_run(pf.FedACD(levels=2), tables, rehearse=False).notes if "levels:" in note]
    assert said and "one beyond the last counts as the last" in said[0]
    assert not any("levels:" in note for note in plan_run(pf.FedACD(), tables, rehearse=False).notes)


@pytest.mark.parametrize(
    ("value", "text"), [(12, "12 bytes"), (1234, "1.23 kB"), (5 * 10**6, "5 MB"), (2 * 10**9, "2 GB")]
)
def test_sizes_for_reading(value: int, text: str) -> None:
    assert size_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.2, "less than a second"), (12.34, "about 12 s"), (600.0, "about 10 min"), (9000.0, "about 2.5 h")],
)
def test_times_for_reading(value: float, text: str) -> None:
    assert time_text(value) == text
