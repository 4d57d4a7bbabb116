"""privfcd dpia: a draft of a data protection impact assessment."""

from __future__ import annotations

import click

from privfcd.cli.commands import Command, option
from privfcd.cli.options import json_option
from privfcd.cli.output import check_apart, check_writable, print_json, say


@click.command(cls=Command)
@click.argument("study", type=click.Path(dir_okay=False))
@option("--rows", required=True, metavar="N,...", help="Records of each party, in the study's order; or one number for all.")
@option("--output", "-o", default="dpia.html", show_default=True, type=click.Path(dir_okay=False), metavar="FILE",
        help="The page to write: .html.")  # fmt: skip
@json_option
def dpia(study: str, rows: str, output: str, as_json: bool) -> None:
    """Draft a data protection impact assessment for a study (GDPR, Article 35).

    It says what leaves each party, what a person is promised, what that does not cover, and which measures are built in.
    What only the institution can say is left empty and marked. No table is read and nothing is charged.

    \b
    Example:
      privfcd dpia study.toml --rows 5000,4200,3900 -o dpia.html
    """
    from privfcd.runs import dpia as made
    from privfcd.runs.wire.study_file import read_study
    from privfcd.whole_files import write_whole

    if not output.lower().endswith((".html", ".htm")):
        raise click.UsageError(f"file {output!r} must end in .html; --json prints the draft as data")
    words = [word.strip() for word in rows.split(",")]
    if not all(word.isascii() and word.isdigit() for word in words):
        raise click.UsageError(f"--rows {rows!r} must be whole numbers with commas between them, such as 5000,4200")
    check_writable(output)
    check_apart([output], [study])
    agreed = read_study(study)
    chapters = made.impact_assessment(agreed, [int(word) for word in words])
    data = made.as_json(agreed, chapters)
    write_whole(output, made.as_html(agreed, chapters).encode())
    if as_json:
        print_json({**data, "output": output})
        return
    say(f"{output}: a draft in {len(chapters)} chapters; {data['to_fill']} fields are for the institution to fill in")
