"""The `privfcd` command: its sub-commands, and how errors end it."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import click

from privfcd import __version__
from privfcd.cli.attack import attack
from privfcd.cli.audit import audit
from privfcd.cli.compare import compare
from privfcd.cli.coordinator import coordinator
from privfcd.cli.learn import demo, learn
from privfcd.cli.ledger import ledger
from privfcd.cli.moments import moments
from privfcd.cli.noise import noise
from privfcd.cli.party import party
from privfcd.errors import BudgetExceeded, PrivfcdError

BAD_INPUT, REFUSED, INTERRUPTED = 2, 3, 130


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="privfcd")
def cli() -> None:
    """Private federated causal discovery.

    Learn a causal graph from several parties' tables within a privacy budget (demo, learn), pay once for second moments
    (moments), compute the noise for a target (noise), keep budgets that last (ledger), check mechanisms empirically
    (audit), attack messages as a curious coordinator would (attack), compare noise regimes (compare), and learn where every
    table stays on its own machine (party, coordinator). Every command takes --json, but for `ledger export`, whose lines
    are JSON, and `party serve`, which writes a log.
    """


for command in (demo, learn, moments, noise, ledger, audit, attack, compare, party, coordinator):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    # the matrices are small, and BLAS threads that wait for each other cost more than they save
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with _plain_warnings():
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
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted; what was charged before stays spent", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.exit(0)
    sys.exit(code or 0)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show what a ledger warns of as one line on stderr, without the source line."""
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
            ledgers = sys.modules.get("privfcd.accounting.journal_errors")  # imported by who warns; --help needs it not
            if ledgers is not None and issubclass(category, ledgers.LedgerWarning):
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
    click.echo(json.dumps({"error": kind, "message": message}))
