"""How an audit ends: its picture, its report, and the exit code that says whether a claim is violated."""

from __future__ import annotations

from typing import Any, Protocol

import click

from privfcd.cli.output import echo, print_json

VIOLATED = 1


class Report(Protocol):
    """What is printed of an audit."""

    @property
    def verdict(self) -> str:
        """`"violated"`, `"consistent"` or `"inconclusive"`."""

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-able values."""


def end_with(report: Report, as_json: bool, **more: Any) -> None:
    """Print a report, for machines with `more` before it, and exit with 1 if its claim is violated."""
    if as_json:
        print_json({**more, **report.as_dict()})
    else:
        echo(report)
    if report.verdict == "violated":
        raise click.exceptions.Exit(VIOLATED)
