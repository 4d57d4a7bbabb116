"""The `privfcd` command: its sub-commands, and how errors end it."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import click

from privfcd import __version__
from privfcd.cli.commands import HELP_NAMES, LazyGroup
from privfcd.cli.interrupts import Interrupted, stoppable
from privfcd.cli.output import print_json
from privfcd.errors import BudgetExceeded, PrivfcdError

BAD_INPUT, REFUSED, INTERRUPTED = 2, 3, 130

COMMANDS = {
    "noise": "privfcd.cli.noise:noise",
    "compare": "privfcd.cli.compare:compare",
    "demo": "privfcd.cli.demo:demo",
    "init": "privfcd.cli.init:init",
    "learn": "privfcd.cli.learn:learn",
    "moments": "privfcd.cli.moments:moments",
    "ledger": "privfcd.cli.ledger:ledger",
    "audit": "privfcd.cli.audit:audit",
    "attack": "privfcd.cli.attack:attack",
    "party": "privfcd.cli.party:party",
    "coordinator": "privfcd.cli.coordinator:coordinator",
}

SECTIONS = (
    (
        "What noise?",
        (
            ("noise", "The noise for a target (epsilon, delta)"),
            ("compare regimes", "What each way of accounting asks for"),
        ),
    ),
    (
        "A graph within a budget",
        (
            ("demo", "Learn a known graph from bundled data of three parties"),
            ("init", "Write a commented study.toml for --config"),
            ("learn", "Learn a graph from several parties' tables"),
            ("moments", "Pay once for second moments, learn from them often"),
            ("ledger", "Budgets that last: make, look at, verify, export"),
            ("compare graphs", "Two graphs: SHD, F1, skeleton, CPDAG"),
        ),
    ),
    (
        "Catch it lying",
        (
            ("audit", "What a mechanism or method leaks, beside what it claims"),
            ("attack", "What a curious coordinator finds in messages"),
        ),
    ),
    (
        "Tables that stay on their machines",
        (
            ("party", "Look at what a study asks and costs, then take part"),
            ("coordinator", "Run a study with parties on other machines"),
        ),
    ),
)

ENDING = (
    "Try `privfcd demo --dry-run`; `privfcd COMMAND --help` has examples; --version.",
    "Exit: 0 done, 1 claim refuted, 2 bad input, 3 budget refused, 130 interrupted.",
)


@click.group(cls=LazyGroup, places=COMMANDS, sections=SECTIONS, ending=ENDING, context_settings=HELP_NAMES)
@click.version_option(__version__, prog_name="privfcd")
def cli() -> None:
    """Private federated causal discovery: graphs, budgets and audits."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    # the matrices are small, and BLAS threads that wait for each other cost more than they save
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with stoppable(), _plain_warnings():
            code = cli.main(args=words, prog_name="privfcd", standalone_mode=False)
    except click.UsageError as error:
        if "--json" in words:
            _print_error(type(error).__name__, error.format_message())
        else:
            error.show()
        sys.exit(BAD_INPUT)
    except BudgetExceeded as error:
        _end(error, words, REFUSED)
    except PrivfcdError as error:
        _end(error, words, BAD_INPUT)
    except Interrupted as stopped:
        if "--json" in words:
            print_json({"error": "Interrupted", "message": stopped.message, "parties": stopped.parties})
        else:
            click.echo(stopped.message, err=True)
        sys.exit(INTERRUPTED)
    except (click.Abort, KeyboardInterrupt):
        message = "interrupted; what was charged before, if anything, stays spent"
        if "--json" in words:
            print_json({"error": "Interrupted", "message": message})
        else:
            click.echo(message, err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.exit(0)
    sys.exit(code or 0)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show what privfcd warns of as one line on stderr, without the source line."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if category.__module__.startswith("privfcd."):
                click.echo(f"Warning: {message}", err=True)
            else:
                others(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def _end(error: PrivfcdError, words: Sequence[str], code: int) -> None:
    if "--json" in words:
        _print_error(type(error).__name__, str(error))
    else:
        click.echo(f"Error: {error}", err=True)
    sys.exit(code)


def _print_error(kind: str, message: str) -> None:
    import json

    click.echo(json.dumps({"error": kind, "message": message}))
