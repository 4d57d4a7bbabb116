"""privfcd schema: propose, check and compare what is declared of the parties' columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from privfcd.cli.commands import Group, option
from privfcd.cli.options import json_option
from privfcd.cli.output import check_apart, check_writable, print_json, say

if TYPE_CHECKING:
    from privfcd.data.schema import Schema


@click.group(cls=Group)
def schema() -> None:
    """Say what the columns are: one public file for all parties.

    \b
    Examples:
      privfcd schema draft a.csv -o columns.toml
      privfcd schema check columns.toml a.csv b.csv
      privfcd schema diff columns.toml theirs.toml
      privfcd learn a.csv b.csv --schema columns.toml --epsilon 3
    """


@schema.command()
@click.argument("table", type=click.Path())
@option("-o", "--output", type=click.Path(dir_okay=False), default=None, metavar="FILE",
        help="Write it there (.toml or .json) instead of printing it.")  # fmt: skip
def draft(table: str, output: str | None) -> None:
    """Propose a schema for a table, for its owner's eyes.

    What is proposed was READ FROM THE ROWS: kinds, levels and gaps. It is not protected. Look at every line, put in ranges
    that you know from elsewhere, take out what others may not know; what you then give to others is declared, and public.
    No range is proposed: the least and largest value are those of single records.

    \b
    Example:
      privfcd schema draft a.csv -o columns.toml
    """
    from privfcd.data.schema_draft import draft_schema
    from privfcd.whole_files import write_whole

    if output is not None:
        if not output.lower().endswith((".toml", ".json")):
            raise click.UsageError(f"file {output!r} must end in .toml or .json")
        check_apart([output], [table])
        check_writable(output)
    made = draft_schema(table)
    text = made.schema.to_json() if output is not None and output.lower().endswith(".json") else made.toml()
    if output is None:
        click.echo(text, nl=False)
    else:
        write_whole(output, text.encode())
    say(
        "This was read from the rows, and is for the owner's eyes until the owner declares it: look at every line, add the "
        "ranges that you know, and take out levels that others may not know",
        stderr=True,
    )


@schema.command()
@click.argument("declared", metavar="SCHEMA", type=click.Path(dir_okay=False))
@click.argument("tables", metavar="TABLE...", nargs=-1, type=click.Path())
@json_option
def check(declared: str, tables: tuple[str, ...], as_json: bool) -> None:
    """Check a schema, and tables against it; say all that is wrong with all columns. Nothing leaves this machine.

    What is said of cells is for the tables' owners only.

    \b
    Examples:
      privfcd schema check columns.toml
      privfcd schema check columns.toml a.csv b.csv
    """
    from privfcd.algorithms.declared import learners_for
    from privfcd.data.schema import Schema
    from privfcd.errors import InvalidTable

    if not declared.lower().endswith((".toml", ".json")):
        raise click.UsageError(f"give the schema first (.toml or .json), then the tables; got {declared!r}")
    known = Schema.read(declared)
    methods = learners_for(known)
    faults: dict[str, str] = {}
    rows: dict[str, int] = {}
    for table in tables:
        try:
            rows[table] = len(known.apply(table).rows)
        except InvalidTable as error:
            faults[table] = str(error)
    if as_json:
        found = {"columns": known.to_dict()["columns"], "methods": methods, "rows": rows, "faults": faults}
        print_json({"schema": declared, "fits": not faults, **found})
    else:
        _print(known, methods, rows)
    if faults:
        raise InvalidTable("\n".join(faults.values()))


@schema.command()
@click.argument("one", type=click.Path(dir_okay=False))
@click.argument("other", type=click.Path(dir_okay=False))
@json_option
def diff(one: str, other: str, as_json: bool) -> None:
    """Say where two schemas differ, and whether parties can take part with one each.

    \b
    Example:
      privfcd schema diff columns.toml theirs.toml
    """
    from privfcd.data.schema import Schema

    first, second = Schema.read(one), Schema.read(other)
    lines, agree = first.differences(second), first.digest == second.digest
    if as_json:
        print_json({"agree": agree, "differences": lines})
        return
    for line in lines:
        say(line)
    say(
        "The parties agree on all that must be the same"
        if agree
        else "The parties do NOT agree: one of them must change"
    )


def _print(known: Schema, methods: list[str], rows: dict[str, int]) -> None:
    for line in known.lines():
        say(line)
    open_ended = [name for name, column in zip(known.names, known.kept, strict=True) if column.limits is None]
    if open_ended:
        say(f"No range: {', '.join(open_ended)}. In a private run a part of the budget pays for finding theirs")
    if not methods:
        say("No learner takes all of these columns together")
    else:
        say(f"Methods that take these columns: {', '.join(methods)}")
    for table, number in rows.items():
        say(f"{table}: {number} rows fit the schema")
