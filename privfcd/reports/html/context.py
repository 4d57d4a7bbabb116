"""What the page shows of a fitted model.

Nothing here reads rows: all that is shown are public attributes of the model, which were paid for when it was fitted.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date as Date
from datetime import datetime
from typing import TYPE_CHECKING, Any

from privfcd import checks
from privfcd.algorithms.results import missing_promises
from privfcd.algorithms.secure.terms import secure_would
from privfcd.drawing.edges import drawn_edges
from privfcd.drawing.layers import PictureTooLarge
from privfcd.drawing.svg import graph_svg
from privfcd.ledger.privacy_report import PrivacyReport, rounded_up
from privfcd.reports.html import wording
from privfcd.reports.html.charts import charts
from privfcd.reports.html.costs import cost_groups, standings
from privfcd.reports.html.edges import against, edge_rows
from privfcd.reports.html.promise import OPEN, SIMULATED, Promise, kind_of, loose_delta, promises
from privfcd.reports.html.settings_used import dropped, parameters, python_lines, repeatable, seeds
from privfcd.reports.run import BEFORE, HERE, graph_edges, notes_of, only_exact, reports_of, versions, where_paid

if TYPE_CHECKING:
    import networkx as nx

_LEAST_SCALE = 0.8
_MOST_NODES, _MOST_DRAWN = 400, 1500
"""Of a graph that is drawn: beyond, a picture takes minutes and hundreds of megabytes, and shows nothing."""
_NOT_ALL = " Not all records are protected."


@dataclass(frozen=True)
class Party:
    """One row of the table of parties."""

    name: str
    rows: str
    report: PrivacyReport
    releases: int


@dataclass(frozen=True)
class Fact:
    """A name with a value, or with facts of its own."""

    name: str
    value: str
    facts: Sequence[Fact]


def check_fitted(model: Any) -> None:
    """Refuse what has no graph."""
    if not hasattr(model, "causal_graph_"):
        raise checks.refuse("model", type(model).__name__, "a fitted estimator")


def context(
    model: Any,
    target: nx.DiGraph[str] | None,
    seconds: float | None,
    command: str | Sequence[str] | None,
    title: str | None,
    date: Date | None,
) -> dict[str, Any]:
    """Return all that the template shows; see `report_html` for the arguments."""
    check_fitted(model)
    if seconds is not None:
        checks.non_negative("seconds", seconds)
    if date is not None and not isinstance(date, Date):
        raise checks.refuse("date", date, "a datetime.date or datetime.datetime")
    if title is not None and (not isinstance(title, str) or not title.strip()):
        raise checks.refuse("title", title, "a text that is not empty")
    graph, reports = model.causal_graph_, reports_of(model)
    promised, paid = promises(reports), where_paid(model)
    stability = getattr(model, "edge_stability_", None)
    missing = missing_promises(model)
    shown = _shown(graph, target)
    picture = _picture(graph.subgraph(shown), stability, None if target is None else target.subgraph(shown))
    edges = edge_rows(graph, stability, target, getattr(model, "untested_", ()))
    history: Sequence[Mapping[str, Any]] = getattr(model, "history_", None) or ()
    return {
        "title": wording.printable(title or _title(model, reports)),
        "date": _date(date),
        "learner": type(model).__name__,
        "judgement": getattr(getattr(model, "judgement_", None), "text", ""),
        "result": _result(model, reports),
        "protection": " ".join(filter(None, (_protection(reports, paid, missing), secure_would(model, reports)))),
        "alarms": [*_alarms(promised), *(("Not all are protected.", text, []) for text in missing)],
        "no_stability": wording.printable(getattr(model, "no_stability_", None) or ""),
        "promises": promised,
        "open": bool(reports) and all(kind_of(report) == OPEN for report in reports),
        "closed": any(kind_of(report) != OPEN for report in reports),
        "secure": all(kind_of(report) != SIMULATED for report in reports),
        "missing": missing,
        "budgets": standings(reports),
        "costs": [(group, kind_of(group.report) == OPEN) for group in cost_groups(reports)],
        "paid": paid,
        "only_exact": only_exact(model),
        "HERE": HERE,
        "BEFORE": BEFORE,
        "OPEN": OPEN,
        "parties": [_party(report) for report in reports],
        "variables": [wording.printable(name) for name in model.feature_names_in_],
        "picture": picture,
        "undrawn": len(graph) - len(shown),
        "least_width": _least_width(picture),
        "edges": edges,
        "weight_words": wording.weight_words(model),
        "weight_name": type(model).weight_name,
        "direction_words": wording.direction_words(model),
        "class_words": wording.class_words(model),
        "stability": stability,
        "rounds": stability is not None and stability.kind == "rounds",
        "intervals": any(row.low is not None for row in edges),
        "comparison": None if target is None else against(target, graph),
        "charts": charts(history),
        "history": history,
        "dropped": dropped(model),
        "notes": [wording.printable(note) for note in (*_loose(reports), *notes_of(model))],
        "rule": facts_of(getattr(model, "rule_", None) or {}),
        "parameters": parameters(model),
        "bytes": getattr(model, "bytes_exchanged_", None),
        "seconds": seconds,
        "rests_on": type(model).rests_on,
        "assumptions": _assumptions(reports),
        "command": _command(command),
        "lines": python_lines(model, () if paid == BEFORE else reports),
        "seeds": seeds(reports),
        "repeatable": repeatable(reports),
        "versions": list(versions().items()),
    }


def facts_of(values: Mapping[Any, Any]) -> list[Fact]:
    """Return nested values as facts; a list of mappings is numbered."""
    made = []
    for name, value in values.items():
        inner: Mapping[Any, Any] = {}
        if isinstance(value, Mapping):
            inner = {} if _flat(value) else value
        elif isinstance(value, list | tuple) and value and all(isinstance(item, Mapping) for item in value):
            inner = {str(place): item for place, item in enumerate(value, start=1)}
        text = "" if inner else wording.value_text(value)
        made.append(Fact(wording.printable(name), text, facts_of(inner)))
    return made


def _flat(values: Mapping[Any, Any]) -> bool:
    """Say whether a mapping is short and plain enough for one line."""
    return len(values) <= 4 and not any(isinstance(value, Mapping | list | tuple) for value in values.values())


def _title(model: Any, reports: Sequence[PrivacyReport]) -> str:
    variables = wording.counted(len(model.feature_names_in_), "variable")
    if not reports or getattr(model, "unreported_", 0) > 0:
        return f"Causal graph of {variables}"
    return f"Causal graph of {variables} from {wording.counted(len(reports), 'party', 'parties')}"


def _date(date: Date | None) -> str:
    moment = datetime.now().astimezone() if date is None else date
    return moment.strftime("%Y-%m-%d %H:%M %Z").strip() if isinstance(moment, datetime) else moment.isoformat()


def _result(model: Any, reports: Sequence[PrivacyReport]) -> str:
    """Return the result in a sentence."""
    edges = graph_edges(model.causal_graph_)
    undirected = sum(bool(edge.get("undirected")) for edge in edges)
    found = wording.counted(len(edges), "edge") if edges else "no edge"
    if type(model).graph == "cpdag":
        found = f"an equivalence class with {found}"
    if undirected:
        found += f", {undirected:,} of them without a direction,"
    among = f"among {wording.counted(len(model.feature_names_in_), 'variable')}"
    if not reports or getattr(model, "unreported_", 0) > 0:
        return f"{type(model).__name__} found {found} {among}."
    source = f"the tables of {wording.counted(len(reports), 'party', 'parties')}"
    rows = [report.declared.get("rows") for report in reports]
    counts = [row for row in rows if isinstance(row, int)]
    words = "rows in all" if all(report.change == "another one" for report in reports) else "rows in all, as declared"
    size = f" ({sum(counts):,} {words})" if len(counts) == len(rows) else ""
    return f"{type(model).__name__} found {found} {among} in {source}{size}."


def _protection(reports: Sequence[PrivacyReport], paid: str, missing: Sequence[str]) -> str:
    """Return in a sentence what protects the records."""
    if not reports and paid == BEFORE:
        source = "given to it" if missing else "released before"
        plain = f"It was learnt from moments that were {source}: this costs nothing, and promises nothing of its own."
        return plain + _NOT_ALL * bool(missing)
    if not reports:
        return (
            "The parties answered from their own machines and paid from their own ledgers: what they were promised is in "
            "their own reports."
        )
    kinds = [kind_of(report) for report in reports]
    if set(kinds) == {OPEN}:
        return "There is no privacy: all answers were exact."
    if set(kinds) == {SIMULATED}:
        return "The noise was simulated, so that this run protects nobody."
    if SIMULATED in kinds:
        said = f"Of {len(kinds)} parties {kinds.count(SIMULATED)} had simulated noise, which protects nobody"
        return said + (f", and {kinds.count(OPEN)} had no privacy: their answers were exact." if OPEN in kinds else ".")
    if OPEN in kinds:
        return f"Of {len(kinds)} parties {kinds.count(OPEN)} had no privacy: their answers were exact."
    if any(math.isinf(report.epsilon) for report in reports):
        amount = f"rho = {rounded_up(max(report.rho for report in reports), 4)} (zCDP)"
    else:
        amount = f"epsilon = {rounded_up(max(report.epsilon for report in reports), 4)}"
        amount += f" and delta = {rounded_up(max(report.delta for report in reports), 3)}"
    whose = "The party's records are" if len(reports) == 1 else "Each party's records are"
    if missing:
        whose = "The records of the parties that are listed here are"
    but = "".join(dict.fromkeys(f", but not towards {report.trusted}" for report in reports if report.trusted))
    said = f"{whose} protected by differential privacy with {amount} at the most, in what was released for this result{but}."
    return said + _NOT_ALL * bool(missing)


def _alarms(promised: Sequence[Promise]) -> list[tuple[str, str, list[str]]]:
    """Return what must be said loudly: a heading, a text, and whom it concerns."""
    said = []
    for kind, heading, text in (
        (
            SIMULATED,
            "The noise was simulated: this run protects nobody.",
            "Whoever knows the seed can take the noise away again. Use such a run to try things out on data that are not "
            "secret. The promises below would hold with secure noise of the same scale.",
        ),
        (
            OPEN,
            "No privacy.",
            "These tables had no budget, and answered exactly (epsilon = inf). Whoever sees the messages or the result may "
            "learn anything about their records.",
        ),
    ):
        names = [name for one in promised if one.kind == kind for name in one.parties]
        if names:
            said.append((heading, text, names))
    return said


def _loose(reports: Sequence[PrivacyReport]) -> list[str]:
    """Return a warning where delta allows what nobody wants, for parties that have a promise."""
    private = [report for report in reports if kind_of(report) != OPEN]
    return loose_delta((report.party, report.delta, report.declared.get("rows")) for report in private)


def _party(report: PrivacyReport) -> Party:
    rows = report.declared.get("rows")
    return Party(
        wording.printable(report.party),
        "–" if rows is None else wording.value_text(rows),
        report,
        sum(part.drawn for part in report.parts),
    )


def _shown(graph: nx.DiGraph[Any], target: nx.DiGraph[Any] | None) -> set[Any]:
    """Return the variables that are drawn: all, or where they are very many those with an edge, here or in the target."""
    if len(graph) <= _MOST_NODES:
        return set(graph)
    return {end for ends in drawn_edges(graph, target=target) for end in ends} or set(graph)


def _picture(graph: nx.DiGraph[Any], stability: Any, target: nx.DiGraph[Any] | None) -> str:
    """Return the drawing, with the names spelt out as on the page unless two would become one; empty if it is too large."""
    import networkx as nx

    if len(graph) > _MOST_NODES or len(drawn_edges(graph, target=target)) > _MOST_DRAWN:
        return ""
    names = {name: wording.printable(name) for name in graph}
    if len(set(names.values())) < len(names):
        names = {}
    shares = None
    if stability is not None:
        shares = {(names.get(i, i), names.get(j, j)): share for (i, j), share in stability.shares(graph).items()}
    truth = None if target is None else nx.relabel_nodes(target, names)
    try:
        return graph_svg(nx.relabel_nodes(graph, names), stability=shares, target=truth)
    except PictureTooLarge:  # long paths take as much room as many nodes
        return ""


def _least_width(picture: str) -> int:
    """Return the width in pixels below which a picture is scrolled rather than shrunk: its text stays readable."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ', picture)
    return 0 if found is None else math.ceil(_LEAST_SCALE * float(found[1]))


def _assumptions(reports: Sequence[PrivacyReport]) -> list[tuple[str, list[str]]]:
    """Return each assumption of the promises, with the parties whose promise rests on it."""
    found: dict[str, list[str]] = {}
    for report in reports:
        for text in report.assumptions:
            found.setdefault(text, []).append(wording.printable(report.party))
    return [(text, [] if len(names) == len(reports) else names) for text, names in found.items()]


def _command(command: str | Sequence[str] | None) -> str:
    if command is None:
        return ""
    if not isinstance(command, str):
        if not isinstance(command, Sequence) or not all(isinstance(word, str) for word in command):
            raise checks.refuse("command", command, "a text or a list of texts")
        command = shlex.join(command)
    return "\n".join(wording.printable(line) for line in command.splitlines())
