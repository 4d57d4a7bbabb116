"""privfcd learn: a graph from several tables, or from moments that were released before."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from privfcd.algorithms.registry import LEARNERS, learner_class
from privfcd.cli.commands import Command, option
from privfcd.cli.config import config_option, given, reproduced
from privfcd.cli.interrupts import accounted
from privfcd.cli.methods import method_options, parameters_of
from privfcd.cli.options import BASIC, dry_run_option, noise_options, quiet_option, table_options
from privfcd.cli.output import say
from privfcd.cli.planned import print_plan
from privfcd.cli.progress import progress, round_progress
from privfcd.cli.results import check_outputs, finish, output_options
from privfcd.cli.tables import (
    check_privacy,
    fitting,
    noise_source,
    open_tables,
    paired,
    print_columns,
    read_files,
    read_schema,
    warn_of_delta,
)
from privfcd.runs import add_levels, method_for, reports_rounds
from privfcd.runs import learn as learn_graph

if TYPE_CHECKING:
    import networkx as nx


@click.command(cls=Command)
@option("--method", type=click.Choice(list(LEARNERS)), default="fed-sparse", show_default=True, section=BASIC,
        metavar="METHOD", help=f"The learner: {', '.join(LEARNERS)}; with --schema one that takes its columns.")  # fmt: skip
@option("--target", type=click.Path(), default=None, metavar="FILE", section=BASIC,
        help="Known graph to compare with: .csv (from,to), .graphml or .json.")  # fmt: skip
@option("--center/--no-center", default=None, section=BASIC,
        help="Take off means, by a paid mean or by differences of records; on where the method has use for it.")  # fmt: skip
@dry_run_option
@table_options
@noise_options
@method_options
@output_options
@config_option
@quiet_option
@click.pass_context
def learn(context: click.Context, /, **options: Any) -> None:
    """Learn one causal graph from the tables of several parties.

    FILES are tables (.csv, .tsv, .csv.gz, .tsv.gz, .parquet), one for each party, with the same columns in any order, in
    comparable units or with a --schema; --columns and --drop say which columns are meant. Each party pays from a budget of
    its own; nothing is learnt from a row before everything is checked and paid for. With --ledger the budgets are those of
    ledgers that add up all runs; without, nothing is remembered of what a run spent.

    \b
    Examples:
      privfcd learn a.csv b.csv c.csv --epsilon 5 --dry-run
      privfcd learn a.csv b.csv c.csv --epsilon 5 --report report.html
      privfcd learn a.csv b.csv --ledger a.sqlite --ledger b.sqlite --epsilon 2
      privfcd learn a.csv b.csv c.csv --epsilon 5 --method pc --set alpha=0.05
      privfcd learn a.csv b.csv c.csv --schema columns.toml --epsilon 3
      privfcd learn a.csv b.csv c.csv --no-privacy --json
      privfcd learn --config study.toml --epsilon 3
      privfcd learn m.npz --method equal-variance    (`privfcd moments release`)
    """
    if any(file.endswith(".npz") for file in options["files"]):
        _learn_from_moments(context, options)
        return
    files, target = options["files"], options["target"]
    schema = read_schema(options)
    if schema is not None and not given(context, "method"):
        options["method"] = context.params["method"] = method_for(schema)
    method = options["method"]
    parameters = parameters_of(context, method, options)
    if schema is not None:
        add_levels(method, schema, parameters)
    check_privacy(context, "a private run")
    if options["stability"] and options["no_privacy"]:
        raise click.UsageError("leave out --stability or --no-privacy: exact answers have no noise to draw again")
    noise = noise_source(options)
    check_outputs(options, read_files(files, options["ledgers"], target, options["schema"]))
    if options["ledgers"]:
        parameters.update(epsilon=options["epsilon"], delta=options["delta"])
    model: Any = learner_class(method)(**parameters, center=options["center"])  # type: ignore[call-arg]
    quiet = options["as_json"] or options["quiet"]
    with progress("read", quiet=quiet):
        tables = open_tables(options, noise, dry_run=options["dry_run"])
    truth = None if target is None else read_target(target, tables[0].columns)
    if options["dry_run"]:
        pairs = paired(options)
        with fitting(options, tables):
            print_plan(model, tables, reproduced(context), as_json=options["as_json"], quiet=quiet, sources=pairs)
        print_columns(options, tables)
        return
    warn_of_delta(options, tables, quiet=quiet)
    began = time.perf_counter()
    with accounted(tables):
        with fitting(options, tables), bar(method, truth, quiet, draws=method == "fed-sparse") as extra:
            model.fit(tables, **extra)
        finish(model, time.perf_counter() - began, truth, options, reproduced(context))


@contextmanager
def bar(method: str, target: nx.DiGraph[str] | None, quiet: bool, *, draws: bool) -> Iterator[dict[str, Any]]:
    """Show a bar with the method's rounds, or where it has none that it runs; yield what `fit` takes for it."""
    if reports_rounds(method):
        with round_progress(quiet, target, draws=draws) as on_round:
            yield {"on_round": on_round}
    else:
        with progress(method, quiet=quiet):
            yield {}


def _learn_from_moments(context: click.Context, options: dict[str, Any]) -> None:
    """Learn from a file of moments: nothing is charged, so that options about budgets and tables are refused."""
    for name in ("epsilon", "delta", "ledgers", "no_privacy", "bounds", "columns", "drop", "schema", "log1p", "center",
                 "clip", "noise_multiplier", "noise", "seed", "dry_run"):  # fmt: skip
        if given(context, name, shared=False):
            flag = "ledger" if name == "ledgers" else name.replace("_", "-")
            raise click.UsageError(f"leave out --{flag}: moments were released and paid for before")
    if len(options["files"]) > 1:
        raise click.UsageError("give one .npz file of moments, or tables, not both and not several")
    from privfcd.moments import load_moments

    method, target = options["method"], options["target"]
    parameters = parameters_of(context, method, options)
    check_outputs(options, read_files(options["files"], (), target))
    stored = load_moments(options["files"][0])
    truth = None if target is None else read_target(target, stored.parts[0].columns)
    quiet = options["as_json"] or options["quiet"]
    began = time.perf_counter()
    with bar(method, truth, quiet, draws=False) as extra:
        model = learn_graph(stored, method=method, **extra, **parameters)
    seconds = time.perf_counter() - began
    if not quiet:
        say(
            "Learning from moments costs nothing: the privacy stated is that of the release that they come from",
            stderr=True,
        )
    finish(model, seconds, truth, options, reproduced(context))


def read_target(path: str, columns: tuple[str, ...]) -> nx.DiGraph[str]:
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
