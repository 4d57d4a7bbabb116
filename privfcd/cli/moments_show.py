"""privfcd moments show, and how moments are printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from privfcd.cli.commands import Command, option
from privfcd.cli.options import OUTPUT, json_option
from privfcd.cli.output import console, jsonable, print_json, say, significant
from privfcd.cli.results import print_privacy

if TYPE_CHECKING:
    from privfcd.ledger import PrivacyReport
    from privfcd.moments import Moments

SAID = {
    "method": "method",
    "why": "why",
    "row norm": "rows were shortened to norm",
    "unknown": "WARNING: at this budget nothing is known of",
    "warning": "WARNING",
    "warnings": "WARNING",
}
"""What is printed of a release's rule, and under which words; JSON has all of it."""


@click.command(cls=Command)
@click.argument("file", type=click.Path())
@option("--matrix", is_flag=True, section=OUTPUT, help="Print the matrix too.")
@json_option
def show(file: str, matrix: bool, as_json: bool) -> None:
    """Show what a file of moments holds and what it cost.

    Rows, columns and noise; how it was made, and why so. --json has all of the rule.

    \b
    Examples:
      privfcd moments show m.npz
      privfcd moments show m.npz --json
    """
    from privfcd.moments import load_moments

    stored = load_moments(file)
    if as_json:
        summary = moments_summary(stored.parts, stored.privacy_report, stored.rule)
        if matrix:
            summary["matrices"] = [part.matrix.tolist() for part in stored.parts]
        print_json(summary)
        return
    print_moments(stored.parts, stored.privacy_report, stored.rule)
    if matrix:
        _print_matrix(stored.parts)


def moments_summary(parts: Sequence[Moments], reports: Sequence[PrivacyReport], rule: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    return {
        "columns": list(parts[0].columns),
        "parts": [
            {
                "rows": part.rows,
                "exact": part.exact,
                "origins": [{"party": origin.party, "noise": origin.noise} for origin in part.origins],
                "median noise sd": 0.0 if part.noise_sd is None else float(np.median(part.noise_sd)),
                "mean": None if part.mean is None else part.mean.tolist(),
                "differences": part.differences,
            }
            for part in parts
        ],
        "rule": jsonable(rule),
        "privacy": [report.as_dict() for report in reports],
    }


def print_moments(parts: Sequence[Moments], reports: Sequence[PrivacyReport], rule: dict[str, Any]) -> None:
    from rich.table import Table

    from privfcd.algorithms.results import moment_notes
    from privfcd.errors import InvalidParameter
    from privfcd.moments import pooled
    from privfcd.moments.origins import origins_text

    rows = ", ".join(f"{part.rows:,}" for part in parts)
    say(f"Second moments of {len(parts[0].columns)} columns from {len(parts)} part(s) of {rows} rows")
    try:
        whole = pooled(parts)
    except InvalidParameter as error:
        say(f"The parts cannot be pooled: {error}")
    else:
        table = Table(title="Columns, all parts together", title_justify="left")
        table.add_column("column")
        for heading in ("second moment", "noise sd", "effective rows"):
            table.add_column(heading, justify="right")
        effective = whole.effective_rows()
        for j, name in enumerate(whole.columns):
            sd = 0.0 if whole.noise_sd is None else float(whole.noise_sd[j, j])
            numbers = (float(whole.matrix[j, j]), sd, float(effective[j, j]))
            table.add_row(name, *(significant(value, 4) for value in numbers))
        console().print(table)
    origins = [origin for part in parts for origin in part.origins]
    say(f"Noise by party: {origins_text(origins)}")
    for text in moment_notes(origins, reports):
        say(f"WARNING: {text}")
    for name in SAID:
        if rule.get(name):
            say(f"{SAID[name]}: {_short(rule[name])}")
    if reports:
        print_privacy(reports)


def _print_matrix(parts: Sequence[Moments]) -> None:
    for number, part in enumerate(parts, start=1):
        say(f"Matrix of part {number}, columns {', '.join(part.columns)}:")
        for row in part.matrix:
            say("  " + " ".join(significant(float(value)) for value in row))


def _short(value: Any) -> str:
    """Return numbers with few digits, for people."""
    if isinstance(value, dict):
        return "; ".join(f"{name} {_short(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_short(item) for item in value)
    return significant(value, 4) if isinstance(value, float) else str(value)
