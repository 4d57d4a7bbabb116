"""privfcd forecast: what a run can find, before anything is paid."""

from __future__ import annotations

import click

from privfcd.cli.commands import Command, option
from privfcd.cli.options import json_option
from privfcd.cli.output import echo, print_json


@click.command(cls=Command)
@option("--rows", required=True, metavar="N,...", help="The number of rows of each party, with commas between them.")
@option("--columns", type=int, required=True, help="How many columns.")
@option("--epsilon", type=float, default=None, help="Budget of each party; without one there is no privacy.")
@option("--delta", type=float, default=None, help="1/n² by default, n each party's own number of rows.")
@option("--sum", "together", type=click.Choice(["per-party", "trusted", "secure"]), default="per-party",
        show_default=True, help="A noise of each party's own, or one noise for the sum.")  # fmt: skip
@option("--colluders", type=int, default=1, show_default=True, help="Of a secure sum, see `privfcd moments release`.")
@option("--dropouts", type=int, default=0, show_default=True, help="Of a secure sum.")
@json_option
def forecast(
    rows: str,
    columns: int,
    epsilon: float | None,
    delta: float | None,
    together: str,
    colluders: int,
    dropouts: int,
    as_json: bool,
) -> None:
    """Forecast what a run can find, from public numbers alone: no table is read and nothing is charged.

    Says which partial correlation is found with probability 1/2 and 0.9, how many edges of typical graphs, and what more
    epsilon or more rows would do.

    \b
    Examples:
      privfcd forecast --rows 144,144,144 --columns 9 --epsilon 1
      privfcd forecast --rows 2000,2000,2000 --columns 10 --epsilon 3 --sum secure
    """
    words = [word.strip() for word in rows.split(",")]
    if not all(word.isascii() and word.isdigit() for word in words):
        raise click.UsageError(f"--rows {rows!r} must be whole numbers with commas between them, such as 5000,4200")
    from privfcd.runs.forecasts import forecast as forecast_run

    found = forecast_run(
        [int(word) for word in words], columns, epsilon, delta, sum=together, colluders=colluders, dropouts=dropouts
    )
    if as_json:
        print_json(found.as_dict())
        return
    echo(found.text)
