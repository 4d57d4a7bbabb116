"""The `privfcd` command: its sub-commands, and how errors end it."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import click

from privfcd import __version__
from privfcd.cli.commands import HELP_NAMES, LazyGroup
from privfcd.cli.endings import Ending, ending_of
from privfcd.cli.interrupts import deaf, stoppable
from privfcd.cli.output import echo, print_json

NOT_READ = 2

COMMANDS = {
    "noise": "privfcd.cli.noise:noise",
    "compare": "privfcd.cli.compare:compare",
    "demo": "privfcd.cli.demo:demo",
    "forecast": "privfcd.cli.forecast:forecast",
    "init": "privfcd.cli.init:init",
    "schema": "privfcd.cli.schema:schema",
    "learn": "privfcd.cli.learn:learn",
    "moments": "privfcd.cli.moments:moments",
    "ledger": "privfcd.cli.ledger:ledger",
    "audit": "privfcd.cli.audit:audit",
    "attack": "privfcd.cli.attack:attack",
    "party": "privfcd.cli.party:party",
    "coordinator": "privfcd.cli.coordinator:coordinator",
    "dpia": "privfcd.cli.dpia:dpia",
}

SECTIONS = (
    (
        "A graph within a budget",
        (
            ("noise", "The noise for a target (epsilon, delta)"),
            ("forecast", "What a run can find, before anything is paid"),
            ("demo", "Learn a known graph from bundled data of three parties"),
            ("init", "Write a commented study.toml for --config"),
            ("schema", "Say what the columns are: draft, check, diff"),
            ("learn", "Learn a graph from several parties' tables"),
            ("moments", "Pay once for second moments, learn from them often"),
            ("ledger", "Budgets that last: make, look at, verify, export"),
            ("compare", "Two graphs (SHD, F1), or ways of accounting"),
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
            ("dpia", "Draft a data protection impact assessment"),
        ),
    ),
)

ENDING = (
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
    whole = arguments is None  # then nothing is left to do but to exit, and another Ctrl-C must not change how
    sys.exit(_code(words, given_back=not whole))


def _code(words: Sequence[str], *, given_back: bool) -> int:
    """Run the words, say what went wrong if something did, and return the exit code."""
    try:
        with stoppable(given_back=given_back), _plain_warnings():
            _print_what_cannot_be_encoded()
            code = cli.main(args=words, prog_name="privfcd", standalone_mode=False)
            if sys.stdout is not None:
                sys.stdout.flush()
            with deaf(given_back=given_back):
                return code or 0
    except SystemExit as ended:  # of completion, which is done; or where who read stdout has seen enough, with 1
        if not ended.code:
            raise
        _close_stdout()
        return NOT_READ
    except BaseException as error:
        with deaf(given_back=given_back):
            ending = ending_of(error)
            try:
                _say(ending, words)
            except OSError:
                _close_stdout()
                with contextlib.suppress(OSError):
                    echo(ending.message, err=True)
            return ending.code


def _print_what_cannot_be_encoded() -> None:
    """Write characters that a terminal cannot show as escapes: a result that is paid for must not end in their error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")


def _say(ending: Ending, words: Sequence[str]) -> None:
    if isinstance(ending.error, BrokenPipeError):  # who read stdout has seen enough
        _close_stdout()
        return
    if ending.fault is not None:
        click.echo(ending.fault, err=True, nl=False)
    if "--json" in words:
        print_json(ending.document())
    elif isinstance(ending.error, click.UsageError):
        ending.error.show()
    else:
        echo(ending.message, err=True)


def _close_stdout() -> None:
    """Let nothing more be written to a stdout that takes nothing, so that the interpreter's end does not fail on it."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


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
                echo(f"Warning: {message}", err=True)
            else:
                others(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield
