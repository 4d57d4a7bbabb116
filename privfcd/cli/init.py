"""privfcd init: a commented configuration for `--config`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from privfcd import checks
from privfcd.algorithms.registry import LEARNERS
from privfcd.cli.commands import Command, option
from privfcd.cli.options import json_option
from privfcd.cli.output import check_apart, check_writable, print_json, say
from privfcd.cli.tables import read_files
from privfcd.reading import toml_text

EPSILON = 5.0

TEXT = """\
# A study, for `privfcd learn --config {name}` and `privfcd moments release --config {name}`.
# Keys are the commands' options without the dashes (`privfcd learn --help`); what is given on the command line wins.
# Relative paths are relative to this file. Lines that begin with # are left out; their values are examples.
# Look at the plan first, which costs nothing:  privfcd learn --config {name} --dry-run

[study]                          # what all commands on these tables share
{files}
{epsilon}
# delta = 1e-7                   # 1/n² by default, n each party's own number of rows
{ledger}
# bounds = 20.0                  # declared public bound on |x|; or one a column: bounds = {{ age = 120, dose = 50 }}
# drop = ["id", "date"]          # columns to leave out, of all files; or those to take: columns = ["age", "dose"]
# center = false                 # columns have mean 0; by default means are taken off
# log1p = true                   # log(1 + x) of every value first, for skewed measurements

[learn]
method = {method} # or {methods}
# target = "known.csv"           # a known graph to compare with
graph = ["graph.graphml"]        # also .dot, .json, .csv
report = "report.html"           # or .txt: the privacy report alone
# plot = "graph.png"             # .png, .svg or .pdf; needs the extra `plot`
# stability = 50                 # draws, to see how sure each edge is under the noise; 0: none

[learn.set]                      # the method's own parameters; the defaults follow from public numbers
# rounds = 60                    # T of fed-sparse and fed-bnsl
# updates = 55                   # K of fed-sparse
# threshold = 0.3                # weights up to this size are dropped

[moments.release]
output = "moments.npz"
# method = "preconditioned"      # or "covariance" with row-norm

# [demo], [audit.gaussian], [audit.algorithm], [attack.covariance], [compare.regimes] and the other audits
# may have a table too.
"""


@click.command(cls=Command)
@click.argument("path", type=click.Path(dir_okay=False), default="study.toml", metavar="[FILE]")
@option("--files", multiple=True, type=click.Path(), metavar="TABLE", help="A party's table. Repeat it for each party.")
@option("--ledger", "ledgers", multiple=True, type=click.Path(), metavar="FILE",
        help="A party's ledger, one for each table.")  # fmt: skip
@option("--method", type=click.Choice(list(LEARNERS)), default=None, metavar="METHOD",
        help=f"The learner, fed-sparse by default: {', '.join(LEARNERS)}.")  # fmt: skip
@option("--epsilon", type=float, default=None, help=f"Budget of each party; {EPSILON:g} by default.")
@option("--force", is_flag=True, help="Write over a file that is there.")
@json_option
def init(
    path: str,
    files: tuple[str, ...],
    ledgers: tuple[str, ...],
    method: str | None,
    epsilon: float | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write a commented configuration for `privfcd learn --config`, study.toml by default.

    On a terminal it asks for what is not given; elsewhere it asks nothing. No table is read and no ledger is made. (The
    study file of `privfcd coordinator run`, which all parties of a federation share, is another one: docs, Flower.)

    \b
    Examples:
      privfcd init
      privfcd init study.toml --files a.csv --files b.csv --epsilon 2 --force
    """
    from privfcd.whole_files import write_whole

    if os.path.exists(path) and not force:
        raise click.UsageError(f"{path} is there already; --force writes over it")
    check_writable(path)
    if ledgers and len(ledgers) != len(files):
        raise click.UsageError(f"give one --ledger for each of {len(files)} --files, got {len(ledgers)}")
    if not as_json and _on_terminal():
        files, method, epsilon = _asked(files, method, epsilon)
    check_apart([path], read_files(files, ledgers, None))
    checks.positive("epsilon", EPSILON if epsilon is None else epsilon)
    tables, kept = (tuple(_relative(each, path) for each in paths) for paths in (files, ledgers))
    text = configuration(Path(path).name, tables, kept, method or "fed-sparse", epsilon)
    write_whole(path, text.encode())
    if as_json:
        print_json({"path": path, "files": list(files), "method": method or "fed-sparse", "epsilon": epsilon})
        return
    say(f"Written: {path}")
    if not files:
        say("Put the tables' paths in `files` first.")
    say(f"Next: privfcd learn --config {path} --dry-run")


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _asked(
    files: tuple[str, ...], method: str | None, epsilon: float | None
) -> tuple[tuple[str, ...], str | None, float | None]:
    """Ask for what was not given."""
    if not files:
        answer = click.prompt(
            "Tables, one for each party, separated by spaces", default="", err=True, show_default=False
        )
        files = tuple(answer.split())
    if method is None:
        method = click.prompt("Method", type=click.Choice(list(LEARNERS)), default="fed-sparse", err=True)
    if epsilon is None:
        epsilon = click.prompt("Epsilon, the budget of each party", type=float, default=EPSILON, err=True)
    return files, method, epsilon


def _relative(file: str, path: str) -> str:
    """Return a path as it is to be written in the configuration at `path`: relative ones are relative to it."""
    folder = os.path.dirname(path)
    return file if os.path.isabs(file) or not folder else os.path.relpath(file, folder)


def configuration(
    name: str, files: tuple[str, ...], ledgers: tuple[str, ...], method: str, epsilon: float | None
) -> str:
    """Return the text of a configuration.

    With ledgers and no epsilon a run takes all that is left there.
    """
    given = bool(files)
    table = f"files = {_list(files if given else ('north.csv', 'south.csv'))}"
    budget = f"epsilon = {EPSILON if epsilon is None else epsilon!r}".ljust(32)
    comment = "# each party's budget; with ledgers, what a run may spend of it"
    paid = f"ledger = {_list(ledgers or ('north.sqlite', 'south.sqlite'))}"
    ledger = f"{paid}" if ledgers else f"# {paid}   # budgets that last (`privfcd ledger init`), one a table"
    return TEXT.format(
        name=name,
        files=table if given else f"# {table}   # one CSV or Parquet table for each party",
        epsilon=f"{'# ' if ledgers and epsilon is None else ''}{budget} {comment}",
        ledger=ledger,
        method=f'"{method}"'.ljust(23),
        methods=", ".join(each for each in LEARNERS if each != method),
    )


def _list(paths: tuple[Any, ...]) -> str:
    return f"[{', '.join(toml_text(str(path)) for path in paths)}]"
