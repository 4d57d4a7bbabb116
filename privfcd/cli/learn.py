"""privfcd learn and privfcd demo: a graph from several tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from privfcd import checks
from privfcd.cli.methods import METHODS, fit_moments, made, stored_moments
from privfcd.cli.output import console, say
from privfcd.cli.results import check_outputs, finish, output_options

if TYPE_CHECKING:
    import networkx as nx

    from privfcd.algorithms.fed_sparse import RoundRecord
    from privfcd.mechanisms import NoiseSource

DEMO_EPSILON = 5.0


@click.command()
@click.option("--epsilon", type=float, default=None, show_default=str(DEMO_EPSILON), help="Budget of each party.")
@click.option("--no-privacy", is_flag=True, help="Exact answers: epsilon = inf.")
@output_options
def demo(epsilon: float | None, no_privacy: bool, **output: Any) -> None:
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

    if no_privacy and epsilon is not None:
        raise click.UsageError("give --epsilon or --no-privacy, not both")
    if not no_privacy and epsilon is None:
        epsilon = DEMO_EPSILON
    if epsilon is not None:
        checks.positive("epsilon", epsilon)
    noise = noise_source(output)
    check_outputs(output)
    quiet = output["as_json"]
    if not quiet:
        privacy = "no privacy" if epsilon is None else f"epsilon = {epsilon:g} each"
        say(f"Sachs data, 7466 rows of 11 proteins, split among {', '.join(PARTIES)}; {privacy}", stderr=True)
    began = time.perf_counter()
    with _progress(quiet, _sachs_target()) as on_round:
        result = run_demo(epsilon=epsilon, noise=noise, on_round=on_round)
    finish(result.model, time.perf_counter() - began, result.data.targets[TARGET], output)


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option(
    "--epsilon",
    type=float,
    default=None,
    help="Budget of each party; with --ledger, what the run may spend of it, all that is left by default.",
)
@click.option(
    "--delta",
    type=float,
    default=None,
    help="1/n² by default, n the party's own number of rows; with --ledger, the ledger's, in proportion.",
)
@click.option(
    "--ledger",
    "ledgers",
    type=click.Path(),
    multiple=True,
    metavar="FILE",
    help="A party's ledger (privfcd ledger init), one for each file, in their order.",
)
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
@click.option("--method", type=click.Choice(list(METHODS)), default="fed-sparse", show_default=True,
              help="The learner; for an .npz file of moments any, at no cost.")  # fmt: skip
@output_options
def learn(
    files: tuple[str, ...],
    epsilon: float | None,
    delta: float | None,
    ledgers: tuple[str, ...],
    no_privacy: bool,
    bounds: float | None,
    log1p: bool,
    center: bool,
    target: str | None,
    method: str,
    **options: Any,
) -> None:
    """Learn one causal graph from the tables of several parties.

    FILES are CSV or Parquet tables, one for each party, with the same columns in any order, in comparable units. Each
    party pays from a budget of its own; nothing is learnt from a row before everything is checked and paid for. With
    --ledger the budgets are those of ledgers that add up all runs; without, nothing is remembered of what a run
    spent.

    \b
    Examples:
      privfcd learn a.csv b.csv c.csv --epsilon 5
      privfcd learn a.csv b.csv c.csv --epsilon 5 --bounds 20 --graph graph.graphml --plot graph.png
      privfcd learn a.csv b.csv --ledger a.sqlite --ledger b.sqlite --epsilon 2
      privfcd learn a.csv b.csv c.csv --no-privacy --json
      privfcd learn m.npz --method equal-variance            (moments of `privfcd moments release`)
    """
    if any(file.endswith(".npz") for file in files):
        _learn_from_moments(files, method, target, options)
        return
    from privfcd.learning import learn as learn_graph
    from privfcd.learning import private_tables

    parameters = {name: options.pop(name) for name in _PARAMETERS}
    parameters = {name: value for name, value in parameters.items() if value is not None}
    if no_privacy and epsilon is not None:
        raise click.UsageError("give --epsilon or --no-privacy, not both")
    if not no_privacy and epsilon is None and not ledgers:
        raise click.UsageError("give --epsilon or --ledger for a private run, or --no-privacy for one without any")
    multiplier = parameters.get("noise_multiplier")
    for name, value in (("--delta", delta), ("--noise-multiplier", multiplier), ("--bounds", bounds)):
        if no_privacy and value is not None:
            raise click.UsageError(f"leave out {name} or --no-privacy: exact answers have no {name[2:]}")
    noise = noise_source(options)
    check_outputs(options, read_files(files, ledgers, target))
    tables = private_tables(
        files,
        epsilon=epsilon,
        delta=delta,
        private=not no_privacy,
        bounds=bounds,
        noise=noise,
        ledgers=ledgers or None,
        log1p=log1p,
    )
    truth = None if target is None else _target(target, tables[0].columns)
    if ledgers:
        parameters.update(epsilon=epsilon, delta=delta)
    began = time.perf_counter()
    if method != "fed-sparse":
        model: Any = made(method, {"center": center, **parameters})
        model.fit(tables)
    else:
        with _progress(options["as_json"], truth) as on_round:
            model = learn_graph(tables, center=center, on_round=on_round, **parameters)
    finish(model, time.perf_counter() - began, truth, options)


def _learn_from_moments(files: tuple[str, ...], method: str, target: str | None, options: dict[str, Any]) -> None:
    """Learn from a file of moments: nothing is charged, so that options about budgets and tables are refused."""
    context = click.get_current_context()
    for name in ("epsilon", "delta", "ledgers", "no_privacy", "bounds", "log1p", "center", "clip", "noise_multiplier",
                 "noise", "seed"):  # fmt: skip
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            flag = name.removesuffix("s" if name == "ledgers" else "").replace("_", "-")
            raise click.UsageError(f"leave out --{flag}: moments were released and paid for before")
    parameters = {name: options.pop(name) for name in _PARAMETERS}
    parameters = {name: value for name, value in parameters.items() if value is not None}
    noise_source(options)
    check_outputs(options, read_files(files, (), target))
    stored = stored_moments(files)
    truth = None if target is None else _target(target, stored.parts[0].columns)
    model, seconds = fit_moments(method, stored, parameters, options["as_json"])
    finish(model, seconds, truth, options)


_PARAMETERS = ("rounds", "updates", "clip", "step", "l1", "rho1", "rho2", "threshold", "noise_multiplier")


def noise_source(options: dict[str, Any]) -> NoiseSource | None:
    """Take `noise` and `seed` out of the options, and return the source they name."""
    from privfcd.mechanisms import SecureNoise, SimulatedNoise

    kind, seed = options.pop("noise"), options.pop("seed")
    if kind == "secure":
        if seed is not None:
            raise click.UsageError("--seed belongs to --noise simulated: secure noise has no seed")
        return SecureNoise()
    return SimulatedNoise(0 if seed is None else seed)


def read_files(files: Sequence[str], ledgers: Sequence[str], target: str | None) -> list[str]:
    """Return all that a run reads, with the files that SQLite keeps beside a ledger."""
    beside = [ledger + suffix for ledger in ledgers for suffix in ("", "-wal", "-shm", "-journal")]
    return [*files, *beside, *([] if target is None else [target])]


def _target(path: str, columns: tuple[str, ...]) -> nx.DiGraph[str]:
    """Return the known graph on all columns, or refuse one that no result could be compared with."""
    from privfcd.errors import InvalidParameter
    from privfcd.graphs import compare, read_graph

    truth = read_graph(path)
    unknown = sorted(set(truth) - set(columns))
    if unknown:
        raise click.UsageError(f"--target {path!r} has variables that the tables do not have: {unknown}")
    truth.add_nodes_from(columns)
    empty: nx.DiGraph[str] = truth.__class__()
    empty.add_nodes_from(truth)
    try:
        compare(truth, empty)
    except InvalidParameter as error:
        raise click.UsageError(f"--target {path!r} cannot be compared with: {error}") from error
    return truth


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
