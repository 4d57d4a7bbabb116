"""privfcd learn and privfcd demo: a graph from several tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from privfcd.cli.output import console, json_option, print_json, significant, write_text

if TYPE_CHECKING:
    import networkx as nx

    from privfcd.algorithms.fed_sparse import FedSparseBNSL, RoundRecord
    from privfcd.mechanisms import NoiseSource

Function = TypeVar("Function", bound=Callable[..., Any])


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


@click.command()
@click.option("--epsilon", type=float, default=5.0, show_default=True, help="Budget of each party.")
@click.option("--no-privacy", is_flag=True, help="Exact answers: epsilon = inf.")
@output_options
def demo(epsilon: float, no_privacy: bool, **output: Any) -> None:
    """Learn the Sachs graph from three hospitals (bundled data).

    The 7466 rows of Sachs et al. (2005), as log(1 + x), are split among three parties; each pays from a budget of its own,
    with delta = 1/n². The result is compared with the 18-edge target of the literature; an empty graph has SHD 18 on it.

    \b
    Examples:
      privfcd demo
      privfcd demo --epsilon 1 --plot graph.png --report privacy.txt
      privfcd demo --no-privacy --json
    """
    from privfcd.demo import PARTIES, TARGET, run_demo

    noise = _noise(output)
    check_outputs(output)
    quiet = output["as_json"]
    if not quiet:
        privacy = "no privacy" if no_privacy else f"epsilon = {epsilon:g} each"
        console(stderr=True).print(f"Sachs data, 7466 rows of 11 proteins, split among {', '.join(PARTIES)}; {privacy}")
    began = time.perf_counter()
    with _progress(quiet, _sachs_target()) as on_round:
        result = run_demo(epsilon=None if no_privacy else epsilon, noise=noise, on_round=on_round)
    _finish(result.model, time.perf_counter() - began, result.data.targets[TARGET], output)


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option("--epsilon", type=float, default=None, help="Budget of each party; required unless --no-privacy.")
@click.option("--delta", type=float, default=None, help="1/n² by default, n the party's own number of rows.")
@click.option("--no-privacy", is_flag=True, help="Exact answers: epsilon = inf.")
@click.option("--rounds", type=int, default=None, help="T, communication rounds.")
@click.option("--updates", type=int, default=None, help="K, coordinate updates a round and party.")
@click.option(
    "--clip", type=float, default=None, help="C, see the documentation; chosen from released values by default."
)
@click.option("--step", type=float, default=None, help="gamma, in (0, 1].")
@click.option("--l1", type=float, default=None, help="lambda, weight of the l1 penalty.")
@click.option("--rho1", type=float, default=None, help="Penalty of cycles.")
@click.option("--rho2", type=float, default=None, help="Penalty of disagreement.")
@click.option("--threshold", type=float, default=None, help="Weights up to this size are dropped at the end.")
@click.option("--noise-multiplier", type=float, default=None, help="Fixed noise, instead of what the budget allows.")
@click.option("--bounds", type=float, default=None, help="Declared public bound on |x| for all columns.")
@click.option("--log1p", is_flag=True, help="Take log(1 + x) of every value first: public, record by record.")
@click.option("--center/--no-center", default=True, show_default=True, help="Take off (paid) means first.")
@click.option("--target", type=click.Path(), default=None, metavar="FILE",
              help="Known graph to compare with: .csv (from,to), .graphml or .json.")  # fmt: skip
@output_options
def learn(
    files: tuple[str, ...],
    epsilon: float | None,
    delta: float | None,
    no_privacy: bool,
    bounds: float | None,
    log1p: bool,
    center: bool,
    target: str | None,
    **options: Any,
) -> None:
    """Learn one causal graph from the tables of several parties.

    FILES are CSV or Parquet tables, one for each party, with the same columns in any order. Each party pays from a
    budget of its own; nothing is read before everything is checked and paid for.

    \b
    Examples:
      privfcd learn a.csv b.csv c.csv --epsilon 5
      privfcd learn a.csv b.csv c.csv --epsilon 5 --bounds 20 --graph graph.graphml --plot graph.png
      privfcd learn a.csv b.csv c.csv --no-privacy --json
    """
    from privfcd.graphs import read_graph
    from privfcd.learning import learn as learn_graph
    from privfcd.learning import private_tables

    if no_privacy and epsilon is not None:
        raise click.UsageError("give --epsilon or --no-privacy, not both")
    if not no_privacy and epsilon is None:
        raise click.UsageError("give --epsilon for a private run, or --no-privacy for one without any")
    parameters = {name: options.pop(name) for name in _PARAMETERS}
    parameters = {name: value for name, value in parameters.items() if value is not None}
    noise = _noise(options)
    check_outputs(options)
    tables = private_tables(
        list(files), epsilon=epsilon, delta=delta, private=not no_privacy, bounds=bounds, noise=noise, log1p=log1p
    )
    truth = None if target is None else read_graph(target)
    if truth is not None and not set(truth) <= set(tables[0].columns):
        unknown = sorted(set(truth) - set(tables[0].columns))
        raise click.UsageError(f"--target {target!r} has variables that the tables do not have: {unknown}")
    if truth is not None:
        truth.add_nodes_from(tables[0].columns)
    began = time.perf_counter()
    with _progress(options["as_json"], truth) as on_round:
        model = learn_graph(tables, center=center, on_round=on_round, **parameters)
    _finish(model, time.perf_counter() - began, truth, options)


_PARAMETERS = ("rounds", "updates", "clip", "step", "l1", "rho1", "rho2", "threshold", "noise_multiplier")


def _noise(options: dict[str, Any]) -> NoiseSource | None:
    from privfcd.mechanisms import SecureNoise, SimulatedNoise

    kind, seed = options.pop("noise"), options.pop("seed")
    if kind == "secure":
        if seed is not None:
            raise click.UsageError("--seed belongs to --noise simulated: secure noise has no seed")
        return SecureNoise()
    return SimulatedNoise(0 if seed is None else seed)


def check_outputs(options: dict[str, Any]) -> None:
    """Refuse files that could not be written, before anything is charged."""
    from importlib.util import find_spec

    for path, accepted in (
        *((path, (".graphml", ".dot", ".json", ".csv")) for path in options["graphs"]),
        (options["plot"], (".png", ".svg", ".pdf")),
        (options["report"], None),
    ):
        if path is None:
            continue
        if accepted is not None and Path(path).suffix.lower() not in accepted:
            raise click.UsageError(f"file {path!r} must end in one of {', '.join(accepted)}")
        if not Path(path).resolve().parent.is_dir():
            raise click.UsageError(f"the folder of {path!r} does not exist")
    if options["plot"] and find_spec("matplotlib") is None:
        raise click.UsageError("--plot needs Matplotlib: pip install 'privfcd[plot]'")


def _sachs_target() -> nx.DiGraph[str]:
    from privfcd.data.datasets import sachs
    from privfcd.demo import TARGET

    return sachs().targets[TARGET]


@contextmanager
def _progress(quiet: bool, target: nx.DiGraph[str] | None) -> Iterator[Callable[[RoundRecord], None] | None]:
    """Show a bar with the round, edges, SHD and how much of the run's reservation is still to be drawn."""
    screen = console(stderr=True)
    if quiet or not screen.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("round"),
        MofNCompleteColumn(),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[status]}"),
    )
    with Progress(*columns, console=screen) as progress:
        task = progress.add_task("", total=None, status="")

        def on_round(record: RoundRecord) -> None:
            left = 1 - record.number / record.rounds
            status = f"{record.edges} edges, {_shd_text(record, target)}{left:.0%} of the run's budget left to draw"
            progress.update(task, completed=record.number, total=record.rounds, status=status)

        yield on_round


def _shd_text(record: RoundRecord, target: nx.DiGraph[str] | None) -> str:
    if target is None or len(target) != len(record.weights):
        return ""
    import numpy as np

    from privfcd.graphs import compare, to_networkx

    estimate = to_networkx(np.where(np.abs(record.weights) > record.threshold, record.weights, 0.0), record.columns)
    return f"SHD {compare(target, estimate).shd}, " if set(target) == set(estimate) else ""


def _finish(model: FedSparseBNSL, seconds: float, target: nx.DiGraph[str] | None, options: dict[str, Any]) -> None:
    """Write the files that were asked for, then print."""
    from privfcd.graphs import write_graph
    from privfcd.reports import draw_graph, privacy_text, run_summary

    summary = run_summary(model, seconds, target)
    for path in options["graphs"]:
        write_graph(model.causal_graph_, path)
    if options["plot"]:
        draw_graph(model.causal_graph_, options["plot"], target=target, title="Learnt graph")
    if options["report"]:
        write_text(options["report"], privacy_text(model))
    if options["as_json"]:
        print_json(summary)
        return
    _print_graph(summary)
    _print_privacy(model)
    written = [*options["graphs"], *(options[name] for name in ("plot", "report") if options[name])]
    if written:
        console().print("Written: " + ", ".join(str(Path(path)) for path in written))
    console().print(f"{seconds:.1f} seconds, {model.bytes_exchanged_:,} bytes exchanged")


def _print_graph(summary: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(title=f"Graph: {len(summary['edges'])} edges", title_justify="left")
    for heading in ("cause", "effect"):
        table.add_column(heading)
    table.add_column("weight", justify="right")
    for edge in sorted(summary["edges"], key=lambda item: -abs(item["weight"])):
        table.add_row(edge["from"], edge["to"], f"{edge['weight']:.4g}")
    console().print(table)
    metrics = summary["against_target"]
    if metrics is not None:
        console().print(
            f"Against the target of {metrics['edges_true']} edges: SHD {metrics['shd']} (an empty graph has "
            f"{metrics['edges_true']}), {metrics['directed_hits']} edges right, {metrics['undirected_hits']} right "
            f"up to direction, F1 {metrics['f1']:.2f}"
        )


def _print_privacy(model: FedSparseBNSL) -> None:
    from rich.table import Table

    table = Table(title="Privacy, per party", title_justify="left")
    table.add_column("party")
    for heading in ("epsilon", "delta", "rho", "releases", "budget"):
        table.add_column(heading, justify="right")
    for report in model.privacy_report_:
        releases = sum(part.drawn for part in report.parts)
        numbers = [significant(value) for value in (report.epsilon, report.delta, report.rho)]
        table.add_row(report.party, *numbers, f"{releases:,}", report.budget)
    console().print(table)
    console().print(f"Noise: {model.privacy_report_[0].noise}")
