"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from privfcd.cli.commands import OTHER, Argument, option
from privfcd.cli.settings import Bounds, Names

Function = TypeVar("Function", bound=Callable[..., Any])

BASIC, PRIVACY, METHOD, OUTPUT = "Basic options", "Privacy options", "Method's own options", "Output options"

json_option = option("--json", "as_json", is_flag=True, section=OUTPUT, help="Print one JSON object for machines.")

quiet_option = option("--quiet", is_flag=True, section=OTHER, help="No progress bars and no notes on stderr.")

dry_run_option = option(
    "--dry-run", is_flag=True, section=BASIC,
    help="Print the plan and end: nothing is charged, learnt or written. It reads what checking needs: every cell of the "
         "tables (numbers? how many rows?) and what is left in the ledgers, on this machine; no value enters the plan.",
)  # fmt: skip

seed_option = option("--seed", type=int, default=0, show_default=True, help="Seed of simulated noise.")


def all_of(function: Function, *options: Callable[[Function], Function]) -> Function:
    """Add options to a command, to be listed in this order."""
    for each in reversed(options):
        function = each(function)
    return function


def _added(context: click.Context, parameter: click.Parameter, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Add what a file lists to what the command line does."""
    listed = (context.default_map or {}).get(parameter.name or "")
    if value is None or listed is None:
        return value
    return tuple(dict.fromkeys([*Names().convert(listed, parameter, context), *value]))


def table_options(function: Function) -> Function:
    """Add tables, and whose budget pays for reading them."""
    return all_of(
        function,
        click.argument("files", cls=Argument, nargs=-1, required=True, type=click.Path()),
        option("--columns", type=Names(), default=None, metavar="NAME,...", section=BASIC,
               help="Take these columns only, of all files: other cells are not looked at. Repeatable. Public."),
        option("--drop", type=Names(), default=None, metavar="NAME,...", section=BASIC, callback=_added,
               help="Leave these columns out, of all files, such as an id or a date. Repeatable; adds to --config. Public."),
        option("--schema", type=click.Path(dir_okay=False), default=None, metavar="FILE", section=BASIC,
               help="What the columns are: kinds, ranges, levels, gaps (privfcd schema draft). Public."),
        option("--log1p", is_flag=True, section=BASIC,
               help="Take log(1 + x) of every value first: public, record by record."),
        option("--epsilon", type=float, default=None, section=PRIVACY,
               help="Budget of each party; with --ledger, what the run may spend of it, all that is left by default."),
        option("--delta", type=float, default=None, section=PRIVACY,
               help="1/n² by default, n the party's own number of rows; with --ledger, the ledger's, in proportion."),
        option("--ledger", "ledgers", type=click.Path(), multiple=True, metavar="FILE", section=PRIVACY,
               help="A party's ledger (privfcd ledger init), one for each file, in their order."),
        option("--no-privacy", is_flag=True, section=PRIVACY, help="Exact answers: epsilon = inf."),
        option("--bounds", type=Bounds(), default=None, metavar="NUMBER", section=PRIVACY,
               help="Declared public bound on |x| for all columns, or column=number,... for each."),
    )  # fmt: skip


def noise_options(function: Function) -> Function:
    """Add the source of noise."""
    return all_of(
        function,
        option("--noise", type=click.Choice(["secure", "simulated"]), default="secure", show_default=True,
               section=PRIVACY, help="Where noise comes from. Simulated noise protects nobody."),
        option("--seed", type=int, default=None, section=PRIVACY, help="Seed of simulated noise."),
    )  # fmt: skip
