"""Where a run's results go: the options that say so, their checks before the charge, and the writing and printing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from privfcd.cli.output import check_apart, check_writable, console, json_option, print_json, say, significant

if TYPE_CHECKING:
    import networkx as nx

    from privfcd.accounting import PrivacyReport

Function = TypeVar("Function", bound=Callable[..., Any])

NOT_WRITTEN = 2


def output_options(function: Function) -> Function:
    """Add the options that say where results go."""
    for option in reversed(
        [
            click.option("--graph", "graphs", type=click.Path(dir_okay=False), multiple=True, metavar="FILE",
                         help="Write the graph: .graphml, .dot, .json or .csv. May be repeated."),
            click.option("--plot", type=click.Path(dir_okay=False), metavar="FILE",
                         help="Draw the graph: .png, .svg or .pdf (extra `plot`)."),
            click.option("--report", type=click.Path(dir_okay=False), metavar="FILE",
                         help="Write the privacy report as text."),
            click.option("--noise", type=click.Choice(["secure", "simulated"]), default="secure", show_default=True,
                         help="Where noise comes from. Simulated noise protects nobody."),
            click.option("--seed", type=int, default=None, help="Seed of simulated noise."),
            json_option,
        ]
    ):  # fmt: skip
        function = option(function)
    return function


def check_outputs(options: dict[str, Any], inputs: Iterable[str] = ()) -> None:
    """Refuse files that could not be written, or that are read in the same run, before anything is charged."""
    for path, accepted in (
        *((path, (".graphml", ".dot", ".json", ".csv")) for path in options["graphs"]),
        (options["plot"], (".png", ".svg", ".pdf")),
    ):
        if path is not None and Path(path).suffix.lower() not in accepted:
            raise click.UsageError(f"file {path!r} must end in one of {', '.join(accepted)}")
    paths = _paths(options)
    for path in paths:
        check_writable(path)
    check_apart(paths, inputs)
    if options["plot"] and find_spec("matplotlib") is None:
        raise click.UsageError("--plot needs Matplotlib: pip install 'privfcd[plot]'")


def finish(model: Any, seconds: float, target: nx.DiGraph[str] | None, options: dict[str, Any]) -> None:
    """Write the files that were asked for, then print; what could not be written loses nothing else."""
    from privfcd.reports import run_summary

    summary = run_summary(model, seconds, target)
    written, failures = _write(model, target, options)
    if options["as_json"]:
        print_json({**summary, **({"error": "NotWritten", "message": "; ".join(failures)} if failures else {})})
    else:
        _print_graph(summary)
        print_privacy(model.privacy_report_)
        if written:
            say("Written: " + ", ".join(str(Path(path)) for path in written))
        say(f"{seconds:.1f} seconds, {model.bytes_exchanged_:,} bytes exchanged")
        for failure in failures:
            click.echo(f"Error: {failure}; the run is done and paid for, its result is above", err=True)
    if failures:
        raise click.exceptions.Exit(NOT_WRITTEN)


def _write(model: Any, target: nx.DiGraph[str] | None, options: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Write every file that can be written; return those, and what went wrong with the others."""
    from privfcd.graphs import write_graph
    from privfcd.reports import draw_graph, privacy_text, write_whole

    graph = model.causal_graph_
    steps: list[tuple[str, Callable[[str], None]]] = [
        (path, lambda path: write_graph(graph, path)) for path in options["graphs"]
    ]
    if options["plot"]:
        steps.append((options["plot"], lambda path: draw_graph(graph, path, target=target, title="Learnt graph")))
    if options["report"]:
        steps.append((options["report"], lambda path: write_whole(path, privacy_text(model).encode())))
    written, failures = [], []
    for path, write in steps:
        try:
            write(path)
            written.append(path)
        except Exception as error:  # whatever it is: the run is paid for, and its result must still be shown
            failures.append(f"{path!r} was not written: {error}")
    return written, failures


def _paths(options: dict[str, Any]) -> list[str]:
    return [*options["graphs"], *(options[name] for name in ("plot", "report") if options[name])]


def _print_graph(summary: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(title=f"Graph, number of edges: {len(summary['edges'])}", title_justify="left")
    for heading in ("cause", "effect"):
        table.add_column(heading)
    table.add_column("weight", justify="right")
    for edge in sorted(summary["edges"], key=lambda item: -abs(item.get("weight", 0.0))):
        weight = f"{edge['weight']:.4g}" if "weight" in edge else ("either way" if edge.get("undirected") else "")
        table.add_row(edge["from"], edge["to"], weight)
    console().print(table)
    metrics = summary["against_target"]
    if metrics is not None:
        say(
            f"Against the target of {metrics['edges_true']} edges: SHD {metrics['shd']} (an empty graph has "
            f"{metrics['edges_true']}), {metrics['directed_hits']} edges right, {metrics['undirected_hits']} right "
            f"up to direction, F1 {metrics['f1']:.2f}"
        )


def print_privacy(reports: Sequence[PrivacyReport]) -> None:
    """Print what each party's records are promised, a row each."""
    from rich.table import Table

    table = Table(title="Privacy, per party", title_justify="left")
    table.add_column("party")
    for heading in ("epsilon", "delta", "rho", "releases", "budget", "left"):
        table.add_column(heading, justify="right")
    for report in reports:
        releases = sum(part.drawn for part in report.parts)
        numbers = [significant(value) for value in (report.epsilon, report.delta, report.rho)]
        table.add_row(report.party, *numbers, f"{releases:,}", report.budget, report.left)
    console().print(table)
    for noise in dict.fromkeys(report.noise for report in reports):
        say(f"Noise: {noise}")
    for report in reports:
        if report.head:
            say(f"Ledger of {report.party!r}: head {report.head}")
