"""privfcd moments: pay once for second moments, and look at what a file of them holds."""

from __future__ import annotations

import time
from typing import Any

import click

from privfcd.cli.commands import Group, option
from privfcd.cli.config import config_option, reproduced
from privfcd.cli.interrupts import accounted, held
from privfcd.cli.moments_show import moments_summary, print_moments, show
from privfcd.cli.options import (
    BASIC,
    METHOD,
    OUTPUT,
    PRIVACY,
    dry_run_option,
    json_option,
    noise_options,
    quiet_option,
    table_options,
)
from privfcd.cli.output import check_apart, check_writable, print_json, say
from privfcd.cli.planned import print_release_plan
from privfcd.cli.progress import progress
from privfcd.cli.results import command_text
from privfcd.cli.tables import (
    check_privacy,
    fitting,
    noise_source,
    open_tables,
    paired,
    print_columns,
    read_files,
    warn_of_delta,
)


@click.group(cls=Group)
def moments() -> None:
    """Pay once for second moments of several tables; learn from them as often as wanted, for nothing more.

    \b
    Examples:
      privfcd moments release a.csv b.csv c.csv --epsilon 1 -o m.npz
      privfcd moments show m.npz
      privfcd learn m.npz --method equal-variance
    """


moments.add_command(show)


@moments.command()
@option("-o", "--output", required=True, type=click.Path(dir_okay=False), metavar="FILE", section=BASIC,
        help="Where the moments go: .npz.")  # fmt: skip
@option("--center/--no-center", default=True, show_default=True, section=BASIC,
        help="Take off means, by differences of records or a paid mean.")  # fmt: skip
@dry_run_option
@table_options
@option("--sum", type=click.Choice(["per-party", "trusted", "secure"]), default="per-party", show_default=True,
        section=PRIVACY, help="One noise for the sum over all tables, by a trusted place or by secure sums.")  # fmt: skip
@option("--colluders", type=int, default=1, show_default=True, section=PRIVACY,
        help="Secure sums: parties that may tell the coordinator all they know.")  # fmt: skip
@option("--dropouts", type=int, default=0, show_default=True, section=PRIVACY,
        help="Secure sums: parties that may be lost.")  # fmt: skip
@noise_options
@option("--method", type=click.Choice(["exact", "covariance", "preconditioned"]), default=None, section=METHOD,
        help="One clipped covariance, or rounds that adapt to it; chosen by default.")  # fmt: skip
@option("--row-norm", type=float, default=None, section=METHOD,
        help="Declared public norm that rows are shortened to (covariance).")  # fmt: skip
@option("--report", type=click.Path(dir_okay=False), metavar="FILE", section=OUTPUT,
        help="Write the privacy report as text.")  # fmt: skip
@json_option
@config_option
@quiet_option
@click.pass_context
def release(context: click.Context, /, **options: Any) -> None:
    """Release second moments, with the law of their noise.

    FILES are tables (.csv, .tsv, .csv.gz, .tsv.gz, .parquet), one for each party, with the same columns in any order;
    --columns and --drop say which columns are meant. Each party pays from a budget of its own, once: learning from the
    moments is post-processing. With --no-center the columns' means are taken to be 0.

    \b
    Examples:
      privfcd moments release a.csv b.csv c.csv --epsilon 1 -o m.npz --dry-run
      privfcd moments release a.csv b.csv c.csv --epsilon 1 -o m.npz
      privfcd learn m.npz --method equal-variance
      privfcd moments release a.csv b.csv --ledger a.sqlite --ledger b.sqlite \\
        --epsilon 1 --method covariance --row-norm 10 -o m.npz
    """
    from privfcd.algorithms.release import release_moments
    from privfcd.moments import save_moments
    from privfcd.whole_files import write_whole

    check_privacy(context, "a private release")
    output, report, ledgers = options["output"], options["report"], options["ledgers"]
    if not output.endswith(".npz"):
        raise click.UsageError(f"file {output!r} must end in .npz")
    noise = noise_source(options)
    outputs = [output, *([report] if report else [])]
    check_apart(outputs, read_files(options["files"], ledgers, None, options["schema"]))
    for path in outputs:
        check_writable(path)
    quiet = options["as_json"] or options["quiet"]
    with progress("read", quiet=quiet):
        tables = open_tables(options, noise, dry_run=options["dry_run"])
    asked = {
        "method": options["method"],
        "row_norm": options["row_norm"],
        "center": options["center"],
        **{name: options[name] for name in ("sum", "colluders", "dropouts")},
        "epsilon": options["epsilon"] if ledgers else None,
        "delta": options["delta"] if ledgers else None,
    }
    configuration = reproduced(context)
    if options["dry_run"]:
        with fitting(options, tables):
            print_release_plan(
                asked, tables, configuration, as_json=options["as_json"], quiet=quiet, sources=paired(options)
            )
        print_columns(options, tables)
        return
    warn_of_delta(options, tables, quiet=quiet)
    began = time.perf_counter()
    with accounted(tables):
        with fitting(options, tables), progress("release", quiet=quiet):
            released = release_moments(tables, **asked)
        seconds = time.perf_counter() - began
        with held() as stopped:
            save_moments(output, released.parts, privacy_report=released.privacy_report, rule=released.rule)
            if report:
                text = "\n\n\n".join(str(each) for each in released.privacy_report) + "\n"
                write_whole(report, (text + command_text(configuration)).encode())
            if options["as_json"]:
                summary = moments_summary(released.parts, released.privacy_report, released.rule)
                written = {"output": output, "bytes": released.bytes_exchanged, "seconds": seconds}
                print_json({**summary, **written, "configuration": configuration})
            else:
                print_moments(released.parts, released.privacy_report, released.rule)
                say(f"Written: {', '.join(outputs)}")
                say(f"{seconds:.1f} seconds, {released.bytes_exchanged:,} bytes exchanged")
    if stopped:
        click.echo("interrupted after the release, which is done and paid for: its files are whole", err=True)
        raise click.exceptions.Exit(130)
