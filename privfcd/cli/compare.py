"""privfcd compare: ways of doing the same thing, side by side."""

from __future__ import annotations

import csv
import io
from typing import Any

import click

from privfcd.cli.commands import Group, option
from privfcd.cli.compare_graphs import graphs
from privfcd.cli.config import config_option
from privfcd.cli.options import json_option, quiet_option
from privfcd.cli.output import console, print_json, say, significant
from privfcd.cli.pictures import check_files, plot_option
from privfcd.cli.progress import progress
from privfcd.markup import csv_cell

HEADINGS = {
    "pairs": "pairs",
    "regime": "regime",
    "scale": "scale for epsilon",
    "selection_sd": "selection sd",
    "update_sd": "update sd",
    "epsilon_same_scale": "epsilon at the paper's scale",
    "proven": "proven",
}

FACTORS = {
    "pairs": "pairs",
    "regime": "over",
    "epsilon": "epsilon, published",
    "epsilon_proven": "epsilon, proven",
    "noise": "noise, published",
    "noise_proven": "noise, proven",
}


@click.group(cls=Group)
def compare() -> None:
    """Compare noise regimes, or two graphs.

    \b
    Examples:
      privfcd compare regimes
      privfcd compare graphs truth.csv learnt.json
    """


compare.add_command(graphs)


@compare.command()
@option("--epsilon", type=float, default=10.0, show_default=True, help="Target epsilon.")
@option("--delta", type=float, default=4e-8, show_default=True, help="Target delta.")
@option("--pairs", default="1,10,100,1000,2000,10000", show_default=True, help="Numbers of selection-update pairs.")
@option("--csv", "csv_file", type=click.Path(dir_okay=False), metavar="FILE", help="Write the table as CSV.")
@plot_option
@json_option
@config_option
@quiet_option
def regimes(
    epsilon: float, delta: float, pairs: str, csv_file: str | None, plot: str | None, as_json: bool, quiet: bool
) -> None:
    """How much noise each way of accounting asks for.

    K T selections and as many updates of sensitivity 1, in five regimes: Laplace noise and advanced composition as
    Mangold et al. 2023 publish it, and as it can be proven; Gumbel and Gaussian noise by zCDP with the loose and the tight
    conversion; and by the tight accountant. Two questions: the noise for the same epsilon, and the epsilon for the
    same noise (that of the loose zCDP regime). A second table has the factors by which Mangold 2023 is worse: in epsilon
    where the update's noise has the same variance, and in that noise for the same epsilon.

    \b
    Examples:
      privfcd compare regimes
      privfcd compare regimes --epsilon 1 --pairs 2000 --csv regimes.csv --plot regimes.png
    """
    from privfcd import checks
    from privfcd.audits import compare_regimes
    from privfcd.audits.regimes import regime_factors
    from privfcd.reports import draw_regimes
    from privfcd.whole_files import write_whole

    try:
        counts = [int(part) for part in pairs.split(",")]
    except ValueError as error:
        raise checks.refuse("pairs", pairs, "whole numbers, separated by commas") from error
    checks.positive("epsilon", epsilon)
    checks.delta("delta", delta, zero=False)
    for count in counts:
        checks.count("pairs", count)
    check_files(plot, csv_file)
    rows: list[dict[str, Any]] = []
    factors: list[dict[str, Any]] = []
    with progress("compare", quiet=as_json or quiet) as done:
        for number, count in enumerate(counts, 1):
            found = compare_regimes(epsilon, delta, count)
            rows += [{"pairs": count, **row.as_dict()} for row in found]
            factors += [{"pairs": count, **factor.as_dict()} for factor in regime_factors(found)]
            done(number, len(counts))
    if csv_file:
        write_whole(csv_file, _csv(rows, factors).encode())
    if plot:
        draw_regimes(rows, plot, epsilon=epsilon, delta=delta, factors=factors)
    if as_json:
        print_json({"epsilon": epsilon, "delta": delta, "rows": rows, "factors": factors})
        return
    say(
        "pairs: releases, each a selection of one coordinate and a noisy update of it. regime: how the noise is made and "
        "added up. proven: whether its epsilon is proven; where it says False, the published epsilon holds only if one "
        "record moves all scores in one direction."
    )
    _print(f"Regimes at epsilon = {epsilon:g}, delta = {delta:g}", HEADINGS, rows, 6)
    say(
        "How many times as much Mangold 2023 needs: of epsilon where updates have the same noise, and of noise where "
        "epsilon is the same; as published, and as it can be proven. Above 1 the other regime is better."
    )
    _print("Mangold 2023 over each other regime", FACTORS, factors, 4)


def _csv(rows: list[dict[str, Any]], factors: list[dict[str, Any]]) -> str:
    """Return the rows with the factors of their regime beside them; Mangold 2023's own rows have none."""
    factor = {(one["pairs"], one["regime"]): one for one in factors}
    names = {key: f"mangold_over_this_{key}" for key in FACTORS if key not in ("pairs", "regime")}
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=[*rows[0], *names.values()], restval="")
    writer.writeheader()
    for row in rows:
        found = factor.get((row["pairs"], row["regime"]))
        whole = row if found is None else row | {name: found[key] for key, name in names.items()}
        writer.writerow({key: csv_cell(cell) for key, cell in whole.items()})
    return text.getvalue()


def _print(title: str, headings: dict[str, str], rows: list[dict[str, Any]], digits: int) -> None:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for key, heading in headings.items():
        table.add_column(heading, justify="left" if key == "regime" else "right")
    for index, row in enumerate(rows):
        values = [row[key] for key in headings]
        if index and row["pairs"] != rows[index - 1]["pairs"]:
            table.add_section()
        table.add_row(*(significant(value, digits) if isinstance(value, float) else str(value) for value in values))
    console().print(table)
