"""privfcd compare: ways of doing the same thing, side by side."""

from __future__ import annotations

import csv
import io
from typing import Any

import click

from privfcd.cli.output import console, json_option, print_json, significant

HEADINGS = {
    "pairs": "pairs",
    "regime": "regime",
    "scale": "scale for epsilon",
    "selection_sd": "selection sd",
    "update_sd": "update sd",
    "epsilon_same_scale": "epsilon at the paper's scale",
    "proven": "proven",
}


@click.group()
def compare() -> None:
    """Compare noise regimes."""


@compare.command()
@click.option("--epsilon", type=float, default=10.0, show_default=True, help="Target epsilon.")
@click.option("--delta", type=float, default=4e-8, show_default=True, help="Target delta.")
@click.option(
    "--pairs", default="1,10,100,1000,2000,10000", show_default=True, help="Numbers of selection-update pairs."
)
@click.option("--csv", "csv_file", type=click.Path(dir_okay=False), metavar="FILE", help="Write the table as CSV.")
@click.option("--plot", type=click.Path(dir_okay=False), metavar="FILE", help="Draw it: .png, .svg or .pdf.")
@json_option
def regimes(epsilon: float, delta: float, pairs: str, csv_file: str | None, plot: str | None, as_json: bool) -> None:
    """How much noise each way of accounting asks for.

    K T selections and as many updates of sensitivity 1, in five regimes: Laplace noise and advanced composition as
    Mangold et al. 2023 publish it, and as it can be proven; Gumbel and Gaussian noise by zCDP with the loose and the tight
    conversion; and by the tight accountant. Two questions: the noise for the same epsilon, and the epsilon for the
    same noise (that of the loose zCDP regime).

    \b
    Examples:
      privfcd compare regimes
      privfcd compare regimes --epsilon 1 --pairs 2000 --csv regimes.csv --plot regimes.png
    """
    from privfcd import checks
    from privfcd.audits import compare_regimes
    from privfcd.reports import draw_regimes, write_whole

    try:
        counts = [int(part) for part in pairs.split(",")]
    except ValueError as error:
        raise checks.refuse("pairs", pairs, "whole numbers, separated by commas") from error
    rows: list[dict[str, Any]] = [
        {"pairs": count, **row.as_dict()} for count in counts for row in compare_regimes(epsilon, delta, count)
    ]
    if csv_file:
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        write_whole(csv_file, text.getvalue().encode())
    if plot:
        draw_regimes(rows, plot, epsilon=epsilon, delta=delta)
    if as_json:
        print_json({"epsilon": epsilon, "delta": delta, "rows": rows})
        return
    from rich.table import Table

    table = Table(title=f"Regimes at epsilon = {epsilon:g}, delta = {delta:g}", title_justify="left")
    for key, heading in HEADINGS.items():
        table.add_column(heading, justify="left" if key == "regime" else "right")
    for index, row in enumerate(rows):
        values = [row[key] for key in HEADINGS]
        if index and row["pairs"] != rows[index - 1]["pairs"]:
            table.add_section()
        table.add_row(*(significant(value) if isinstance(value, float) else str(value) for value in values))
    console().print(table)
