"""What a run would release, how often, with how much noise and at what cost: known before anything is charged."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from dp_accounting import GaussianDpEvent, LaplaceDpEvent, NonPrivateDpEvent

from privfcd import checks
from privfcd.accounting import BoundedRangeDpEvent
from privfcd.accounting.accountants import zcdp_cost
from privfcd.accounting.events import leaves
from privfcd.accounting.units import units_to_float
from privfcd.algorithms.base import Estimator
from privfcd.algorithms.inputs import checked_tables, moments_given
from privfcd.algorithms.results import moment_notes, table_report
from privfcd.algorithms.secure.terms import SumTerms
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter
from privfcd.ledger import PlanPart
from privfcd.reports.html.promise import loose_delta
from privfcd.runs.defaults import defaults_of
from privfcd.runs.most_bytes import most_bytes
from privfcd.runs.rehearsal import Estimate, ScratchLedger, commit, estimated
from privfcd.runs.run_plan import PartyPlan, PlannedRelease, RunPlan

__all__ = ["PartyPlan", "PlannedRelease", "RunPlan", "plan_run"]

SIMULATED = "THE NOISE IS SIMULATED: whoever knows the seed can remove it, so that the run would protect nobody."
OPEN = "NO PRIVACY for {}: tables without a budget give exact answers (epsilon = inf)."
FREE = "Learning from moments costs nothing: what is promised to the records is what their release promised."
LEVELS = (
    "levels: a value is rounded to the nearest declared level of its column; one beyond the last counts as the last, and "
    "one below the first as the first."
)
SECURE = (
    "ONE NOISE for the sum over all tables, and only the sum is seen: {:.1f} times less noise in it than with one noise for "
    "each party, as long as at most {} parties collude with the coordinator and {} drop out."
)
SECURE_WOULD = "With sum='secure' the noise of the pooled answers would be {:.1f} times smaller (colluders={}, dropouts={})."
MOST_LINES = 30
"""So many declared columns are listed in a plan."""

TRUSTED = "ONE NOISE for the sum over all tables: nothing is promised towards the place that sums them up."


def plan_run(model: Estimator, tables: Any, *, rehearse: bool = True, sources: Sequence[str] | None = None) -> RunPlan:
    """Return what `model.fit(tables)` would release and cost. No row is read, nothing is charged.

    What will be charged is found by running a copy of the estimator on copies of the ledgers in memory and on tables
    without rows, up to where it has reserved its budget and would read the first one. So the plan is that of the code that
    will run, and neither the tables nor the seeds of simulated noise are touched: a later `fit` gives what it would have
    given without a plan. Bytes and time come from short runs on synthetic rows.

    Parameters
    ----------
    model : Estimator
        With its parameters; it is left as it is.
    tables : sequence of PrivateTable, or moments
        What it would be fitted to.
    rehearse : bool
        Whether bytes and time are estimated too, which takes up to about 5 seconds.
    sources : sequence of str, optional
        For each table, in words, what it was read from and what pays for it: "north.csv -> north.sqlite".

    Returns
    -------
    RunPlan

    Raises
    ------
    BudgetExceeded
        A party's budget does not allow the run, as `fit` would say.
    InvalidParameter, InvalidTable
        What is wrong, as `fit` would say.

    Examples
    --------
    >>> import privfcd as pf
    >>> rows = pf.simulate.linear_gaussian(4, parties=2, rows=500, seed=1).tables
    >>> tables = [pf.PrivateTable(x, name=f"ward-{i}", budget=pf.Budget(rho=0.5), bounds=9.0) for i, x in enumerate(rows)]
    >>> plan = plan_run(pf.EqualVarianceSearch(), tables, rehearse=False)
    >>> [part.label for part in plan.parties[0].parts][0]
    'histogram of octaves (scales)'
    >>> tables[0].ledger.spent()
    {'rho': 0.0}
    """
    method = type(model).__name__
    moments = moments_given(tables)
    if moments is not None:
        parameters = defaults_of(model, tables)
        estimate = estimated(model, moments) if rehearse else None
        notes = [FREE, *moment_notes([origin for part in moments for origin in part.origins])]
        most, why = most_bytes(model, moments[0].columns, len(moments), parameters, None)
        return _plan(method, [], parameters, [*notes, *([why] if why else [])], estimate, 0.0, most)
    checked = checked_tables(tables, getattr(model, "takes", ("numbers",)), getattr(model, "method", "this one"))
    if sources is not None and (isinstance(sources, str) or len(sources) != len(checked)):
        raise checks.refuse("sources", sources, f"one text for each of {len(checked)} tables")
    before = [_left_text(table) for table in checked]
    began = time.perf_counter()
    committed = commit(model, checked)
    pricing = time.perf_counter() - began
    parties = [
        _party(table, ledger, left, model, source)
        for table, ledger, left, source in zip(
            checked, committed.ledgers, before, sources or [""] * len(checked), strict=True
        )
    ]
    labels = [part.label for party in parties for part in party.parts]
    parameters = defaults_of(model, checked, labels)
    loose = loose_delta((party.party, party.delta, party.rows) for party in parties if math.isfinite(party.rho))
    notes = [*loose, *_notes(checked, committed.model), *_of_levels(model), *_chosen(model, parameters), *_declared(checked)]
    private = any(not table.open for table in checked)
    most, why = most_bytes(
        model, checked[0].columns, len(checked), parameters, list(dict.fromkeys(labels)), private=private
    )
    notes += [why] if why else []
    estimate = estimated(model, checked) if rehearse else None
    return _plan(method, parties, parameters, notes, estimate, pricing, most)


def _declared(tables: Sequence[PrivateTable]) -> list[str]:
    """Return what the tables' schema says, of the first columns."""
    schema = tables[0].schema
    if schema is None:
        return []
    lines = schema.lines()
    more = [f"and {len(lines) - MOST_LINES} more"] if len(lines) > MOST_LINES else []
    return ["Declared: " + " | ".join([*lines[:MOST_LINES], *more])]


def _plan(
    method: str,
    parties: list[PartyPlan],
    parameters: Mapping[str, Any],
    notes: list[str],
    estimate: Estimate | None,
    pricing: float,
    most: int | None = None,
) -> RunPlan:
    """Return the plan; finding the noise for the budgets takes `pricing` seconds again in the run."""
    sent, seconds = None, None
    if estimate is not None:
        notes = [*notes, estimate.how]
        sent = estimate.bytes
        seconds = None if estimate.seconds is None else estimate.seconds + pricing
    rounds, updates = (parameters.get(name) for name in ("rounds", "updates"))
    return RunPlan(
        method,
        parties,
        rounds if isinstance(rounds, int) else None,
        updates if isinstance(updates, int) else None,
        sent,
        seconds,
        parameters,
        notes,
        most,
    )


def _of_sums(model: Any, tables: Sequence[PrivateTable]) -> list[str]:
    """Say whose noise it is, and what one noise for all would be."""
    together = getattr(model, "sum", None)
    if together == "trusted":
        return [TRUSTED]
    colluders, dropouts = getattr(model, "colluders", 1), getattr(model, "dropouts", 0)
    try:
        terms = SumTerms(len(tables), colluders, dropouts)
    except InvalidParameter:
        return []
    words = SECURE if together == "secure" else SECURE_WOULD if together == "per-party" else ""
    return [words.format(terms.less_noise, colluders, dropouts)] if words else []


def _of_levels(model: Estimator) -> list[str]:
    return [LEVELS] if model.get_params().get("levels") is not None else []


def _party(table: PrivateTable, ledger: ScratchLedger, left: str, model: Estimator, source: str) -> PartyPlan:
    """Return one table's part of the plan, from the report that the run would make on its reservation."""
    reservation, delta = ledger.reserved[0]
    if delta is None:
        delta = model.get_params().get("delta")
    report = table_report(table, reservation, delta=delta, declared={}, assumptions=())
    return PartyPlan(
        party=table.name,
        rows=table.n_rows,
        epsilon=report.epsilon,
        delta=report.delta,
        rho=report.rho,
        budget=report.budget,
        left_before=left,
        left_after=report.left,
        spend={account: units_to_float(units) for account, units in reservation.charged().items()},
        parts=[_release(part, report.rho) for part in reservation.parts],
        standing=report.standing,
        noise=report.noise,
        secure=report.secure,
        source=source,
    )


def _release(part: PlanPart, rho: float) -> PlannedRelease:
    event = part.event
    multiplier: float | None = None
    if isinstance(event, NonPrivateDpEvent):
        multiplier = 0.0
    elif isinstance(event, GaussianDpEvent | LaplaceDpEvent):
        multiplier = event.noise_multiplier
    elif isinstance(event, BoundedRangeDpEvent):
        multiplier = 2 / event.eta if event.eta else None
    costs = [(zcdp_cost(leaf), count) for leaf, count in leaves(event)]
    share = None
    if math.isfinite(rho) and rho > 0:
        share = sum((cost or 0.0) * count for cost, count in costs) * part.count / rho
    return PlannedRelease(part.label, repr(event), part.count, multiplier, share, part.remark)


def _left_text(table: PrivateTable) -> str:
    left = table.ledger.left()
    if table.open:
        return "everything is open"
    return "nothing" if left is None else str(left)


def _chosen(model: Estimator, parameters: Mapping[str, Any]) -> list[str]:
    """Say which numbers were chosen for parameters that were left out."""
    numbers = {
        name: parameters[name]
        for name, value in model.get_params().items()
        if value is None and name != "workers" and isinstance(parameters.get(name), int | float)
    }
    words = ", ".join(f"{name} = {value}" for name, value in numbers.items() if not isinstance(value, bool))
    if not words:
        return []
    return [f"left out, and chosen from the budgets and the numbers of parties, rows and columns: {words}"]


def _notes(tables: Sequence[PrivateTable], model: Any) -> list[str]:
    notes = []
    opened = [table.name for table in tables if table.open]
    if opened:
        notes.append(OPEN.format(", ".join(opened)))
    if any(not table.open and not table.noise.secure for table in tables):
        notes.append(SIMULATED)
    if len(opened) < len(tables):
        notes += _of_sums(model, tables)
    why = getattr(model, "rule_", {}).get("why")
    if why:
        notes.append(f"release: {why}")
    return notes
