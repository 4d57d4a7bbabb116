"""Where a run's results go: the options that say so, their checks before the charge, and the writing and printing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from privfcd.cli.commands import option
from privfcd.cli.edges import print_graph
from privfcd.cli.interrupts import held
from privfcd.cli.options import OUTPUT, all_of, json_option
from privfcd.cli.output import check_apart, check_writable, console, print_json, say
from privfcd.cli.pictures import PICTURES, check_drawn
from privfcd.cli.stability import stability_of

if TYPE_CHECKING:
    import networkx as nx

    from privfcd.ledger import PrivacyReport

Function = TypeVar("Function", bound=Callable[..., Any])

NOT_WRITTEN = 2
GRAPHS = (".graphml", ".dot", ".json", ".csv")


def output_options(function: Function) -> Function:
    """Add the options that say where results go."""
    return all_of(
        function,
        option("--graph", "graphs", type=click.Path(dir_okay=False), multiple=True, metavar="FILE", section=OUTPUT,
               help="Write the graph: .graphml, .dot, .json or .csv. May be repeated."),
        option("--plot", type=click.Path(dir_okay=False), metavar="FILE", section=OUTPUT,
               help="Draw the graph: .png, .svg or .pdf (extra `plot`)."),
        option("--report", type=click.Path(dir_okay=False), metavar="FILE", section=OUTPUT,
               help="Write a report: .html is a page with graph, budget and how to reproduce; any other is the privacy "
                    "report as text."),
        option("--stability", type=click.IntRange(min=0), default=None, metavar="N", section=OUTPUT,
               show_default="50 within 10 seconds",
               help="After a private run: how often each edge comes back under other noise, by N draws on what was "
                    "released; fed-sparse on tables counts its own late rounds instead, whatever N. Costs no budget; 0 "
                    "leaves it out."),
        json_option,
    )  # fmt: skip


def check_outputs(options: dict[str, Any], inputs: Iterable[str] = ()) -> None:
    """Refuse files that could not be written, or that are read in the same run, before anything is charged."""
    for path, accepted in (*((path, GRAPHS) for path in options["graphs"]), (options["plot"], PICTURES)):
        if path is not None and Path(path).suffix.lower() not in accepted:
            raise click.UsageError(f"file {path!r} must end in one of {', '.join(accepted)}")
    paths = [*options["graphs"], *(options[name] for name in ("plot", "report") if options[name])]
    check_apart(paths, inputs)
    for path in paths:
        check_writable(path)
    if options["plot"] is not None:
        check_drawn(options["plot"], graph=True)
    import_module("privfcd.reports")  # whatever is amiss with it shows now, not when the result is paid for
    if options["report"] and _is_page(options["report"]):
        import_module("privfcd.reports.html")


def _is_page(path: str) -> bool:
    return path.lower().endswith((".html", ".htm"))


def finish(
    model: Any,
    seconds: float,
    target: nx.DiGraph[str] | None,
    options: dict[str, Any],
    configuration: dict[str, Any],
) -> None:
    """Write the files that were asked for, then print; what could not be written loses nothing else.

    The run is paid for: an interruption ends the draws of stability, and waits for the rest.
    """
    from privfcd.algorithms.secure.terms import secure_would
    from privfcd.reports import run_summary

    with held() as stopped:
        began = time.perf_counter()
        stability, note = stability_of(model, options["stability"], options["quiet"] or options["as_json"], stopped)
        drawing = time.perf_counter() - began
        written, failures = _write(model, seconds, target, options, configuration)
        summary = run_summary(model, seconds, target)
        summary |= {"configuration": configuration, "stability_note": note, "stability_seconds": drawing}
        if options["as_json"]:
            print_json({**summary, **({"error": "NotWritten", "message": "; ".join(failures)} if failures else {})})
        else:
            print_graph(summary, model, stability)
            for text in model.notes_:
                say(f"Note: {text}")
            if note:
                say(note)
            for text in summary["privacy"]["missing"]:
                say(text)
            print_privacy(model.privacy_report_ or ())
            would = secure_would(model, model.privacy_report_ or ())
            if would:
                say(would)
            if written:
                say("Written: " + ", ".join(str(Path(path)) for path in written))
            more = f", and {drawing:.1f} seconds for the stability" if drawing >= 0.05 else ""
            say(f"{seconds:.1f} seconds{more}; {model.bytes_exchanged_:,} bytes exchanged")
            for failure in failures:
                click.echo(f"Error: {failure}; the run is done and paid for, its result is above", err=True)
    if stopped:
        click.echo("interrupted after the run, which is done and paid for: its result is complete", err=True)
        raise click.exceptions.Exit(130)
    if failures:
        raise click.exceptions.Exit(NOT_WRITTEN)


def _write(
    model: Any,
    seconds: float,
    target: nx.DiGraph[str] | None,
    options: dict[str, Any],
    configuration: dict[str, Any],
) -> tuple[list[str], list[str]]:
    """Write every file that can be written; return those, and what went wrong with the others."""
    from privfcd.drawing import draw_graph
    from privfcd.graphs import write_graph

    graph = model.causal_graph_
    steps: list[tuple[str, Callable[[str], None]]] = [
        (path, lambda path: write_graph(graph, path)) for path in options["graphs"]
    ]
    if options["plot"]:
        steps.append((options["plot"], lambda path: draw_graph(graph, path, target=target, title="Learnt graph")))
    if options["report"]:
        steps.append((options["report"], lambda path: _write_report(path, model, seconds, target, configuration)))
    written, failures = [], []
    for path, write in steps:
        try:
            write(path)
            written.append(path)
        except Exception as error:  # whatever it is: the run is paid for, and its result must still be shown
            failures.append(f"{path!r} was not written: {error}")
    return written, failures


def _write_report(
    path: str, model: Any, seconds: float, target: nx.DiGraph[str] | None, configuration: dict[str, Any]
) -> None:
    if _is_page(path):
        from privfcd.reports.html import write_report

        write_report(path, model, target=target, seconds=seconds, command=configuration["command"])
        return
    from privfcd.reports import privacy_text
    from privfcd.whole_files import write_whole

    write_whole(path, (privacy_text(model) + command_text(configuration)).encode())


def command_text(configuration: dict[str, Any]) -> str:
    """Return how to run it again, for the end of a text report."""
    return f"\n\nRun again (pays again) with: {configuration['command']}\n"


def print_privacy(reports: Sequence[PrivacyReport]) -> None:
    """Print what each party's records are promised, a row each."""
    if not reports:
        return
    from rich.table import Table

    from privfcd.ledger.privacy_report import rounded_up

    table = Table(title="Privacy, per party", title_justify="left")
    table.add_column("party")
    for heading in ("epsilon", "delta", "rho", "releases", "budget", "left"):
        table.add_column(heading, justify="right")
    for report in reports:
        releases = sum(part.drawn for part in report.parts)
        numbers = [rounded_up(value) for value in (report.epsilon, report.delta, report.rho)]
        table.add_row(report.party, *numbers, f"{releases:,}", report.budget, report.left)
    console().print(table)
    for noise in dict.fromkeys(report.noise for report in reports):
        say(f"Noise: {noise}")
    for trusted in dict.fromkeys(report.trusted for report in reports if report.trusted):
        say(f"Nothing is promised towards {trusted}.")
    for report in reports:
        if report.head:
            say(f"Ledger of {report.party!r}: head {report.head}")
