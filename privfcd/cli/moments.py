"""privfcd moments: pay once for second moments, and look at what a file of them holds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from privfcd.cli.learn import noise_source, read_files
from privfcd.cli.output import (
    check_apart,
    check_writable,
    console,
    json_option,
    jsonable,
    print_json,
    say,
    significant,
)
from privfcd.cli.results import print_privacy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privfcd.accounting import PrivacyReport
    from privfcd.moments import Moments


@click.group()
def moments() -> None:
    """Pay once for second moments of several tables; learn from them as often as wanted, for nothing more."""


@moments.command()
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option(
    "--epsilon",
    type=float,
    default=None,
    help="Budget of each party; with --ledger, what the release may spend of it, all that is left by default.",
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
@click.option("--no-privacy", is_flag=True, help="Exact moments: epsilon = inf.")
@click.option(
    "--method",
    type=click.Choice(["exact", "covariance", "preconditioned"]),
    default=None,
    help="One clipped covariance, or rounds that adapt to it; chosen by default.",
)
@click.option(
    "--row-norm", type=float, default=None, help="Declared public norm that rows are shortened to (covariance)."
)
@click.option("--bounds", type=float, default=None, help="Declared public bound on |x| for all columns.")
@click.option("--center/--no-center", default=False, show_default=True, help="Take off (paid) means first.")
@click.option("--log1p", is_flag=True, help="Take log(1 + x) of every value first: public, record by record.")
@click.option(
    "--trusted-sum",
    is_flag=True,
    help="One noise on the sum over all tables: nothing is promised towards this process, which sees them all.",
)
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False), metavar="FILE", help="Where the moments go: .npz."
)
@click.option("--report", type=click.Path(dir_okay=False), metavar="FILE", help="Write the privacy report as text.")
@click.option(
    "--noise",
    type=click.Choice(["secure", "simulated"]),
    default="secure",
    show_default=True,
    help="Where noise comes from. Simulated noise protects nobody.",
)
@click.option("--seed", type=int, default=None, help="Seed of simulated noise.")
@json_option
def release(
    files: tuple[str, ...],
    epsilon: float | None,
    delta: float | None,
    ledgers: tuple[str, ...],
    no_privacy: bool,
    method: str | None,
    row_norm: float | None,
    bounds: float | None,
    center: bool,
    log1p: bool,
    trusted_sum: bool,
    output: str,
    report: str | None,
    as_json: bool,
    **source: Any,
) -> None:  # fmt: skip
    """Release second moments of several tables, with the law of their noise.

    FILES are CSV or Parquet tables, one for each party, with the same columns in any order. Each party pays from a budget
    of its own, once: learning from the moments is post-processing. Without --center the columns' means are taken to be 0.

    \b
    Examples:
      privfcd moments release a.csv b.csv c.csv --epsilon 1 -o m.npz
      privfcd learn m.npz --method equal-variance
      privfcd moments release a.csv b.csv --ledger a.sqlite --ledger b.sqlite --epsilon 1 --method covariance \\
        --row-norm 10 -o m.npz
    """
    from privfcd.algorithms.release import release_moments
    from privfcd.learning import private_tables
    from privfcd.moments import save_moments
    from privfcd.reports import write_whole

    if no_privacy and epsilon is not None:
        raise click.UsageError("give --epsilon or --no-privacy, not both")
    if not no_privacy and epsilon is None and not ledgers:
        raise click.UsageError("give --epsilon or --ledger for a private release, or --no-privacy for exact moments")
    for name, value in (("--delta", delta), ("--row-norm", row_norm), ("--bounds", bounds)):
        if no_privacy and value is not None:
            raise click.UsageError(f"leave out {name} or --no-privacy: exact moments have no {name[2:]}")
    if not output.endswith(".npz"):
        raise click.UsageError(f"file {output!r} must end in .npz")
    noise = noise_source(source)
    outputs = [output, *([report] if report else [])]
    for path in outputs:
        check_writable(path)
    check_apart(outputs, read_files(files, ledgers, None))
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
    began = time.perf_counter()
    released = release_moments(
        tables,
        method=method,
        row_norm=row_norm,
        center=center,
        sum="trusted" if trusted_sum else "per-party",
        epsilon=epsilon if ledgers else None,
        delta=delta if ledgers else None,
    )
    seconds = time.perf_counter() - began
    save_moments(output, released.parts, privacy_report=released.privacy_report, rule=released.rule)
    if report:
        text = "\n\n\n".join(str(each) for each in released.privacy_report) + "\n"
        write_whole(report, text.encode())
    summary = _summary(released.parts, released.privacy_report, released.rule)
    if as_json:
        print_json({**summary, "output": output, "bytes": released.bytes_exchanged, "seconds": seconds})
        return
    _print(released.parts, released.privacy_report, released.rule)
    say(f"Written: {', '.join(outputs)}")
    say(f"{seconds:.1f} seconds, {released.bytes_exchanged:,} bytes exchanged")


@moments.command()
@click.argument("file", type=click.Path())
@click.option("--matrix", is_flag=True, help="Print the matrix too.")
@json_option
def show(file: str, matrix: bool, as_json: bool) -> None:
    """Show what a file of moments holds: rows, columns, noise, the rule it was made by and what it cost.

    \b
    Examples:
      privfcd moments show m.npz
      privfcd moments show m.npz --json
    """
    from privfcd.moments import load_moments

    stored = load_moments(file)
    if as_json:
        summary = _summary(stored.parts, stored.privacy_report, stored.rule)
        if matrix:
            summary["matrices"] = [part.matrix.tolist() for part in stored.parts]
        print_json(summary)
        return
    _print(stored.parts, stored.privacy_report, stored.rule)
    if matrix:
        _print_matrix(stored.parts)


def _summary(parts: Sequence[Moments], reports: Sequence[PrivacyReport], rule: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    return {
        "columns": list(parts[0].columns),
        "parts": [
            {
                "rows": part.rows,
                "exact": part.exact,
                "median noise sd": 0.0 if part.noise_sd is None else float(np.median(part.noise_sd)),
                "mean": None if part.mean is None else part.mean.tolist(),
            }
            for part in parts
        ],
        "rule": jsonable(rule),
        "privacy": [report.as_dict() for report in reports],
    }


def _print(parts: Sequence[Moments], reports: Sequence[PrivacyReport], rule: dict[str, Any]) -> None:
    from rich.table import Table

    from privfcd.errors import InvalidParameter
    from privfcd.moments import pooled

    rows = ", ".join(f"{part.rows:,}" for part in parts)
    say(f"Second moments of {len(parts[0].columns)} columns from {len(parts)} part(s) of {rows} rows")
    try:
        whole = pooled(parts)
    except InvalidParameter:
        say("The parts have means of their own taken off and cannot be pooled")
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
    for name, value in rule.items():
        say(f"{name}: {_short(value)}")
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
