"""privfcd attack: what a curious coordinator finds in what it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from privfcd.cli.commands import Group, option
from privfcd.cli.config import config_option
from privfcd.cli.options import json_option, quiet_option
from privfcd.cli.output import console, print_json, significant
from privfcd.cli.pictures import check_files, plot_option
from privfcd.cli.progress import progress

if TYPE_CHECKING:
    from privfcd.audits.attack import AttackReport

METHODS = ("fed-bnsl", "fed-bnsl-float32", "fed-bnsl-fw", "fed-sparse-bnsl", "dp-fed-sparse-bnsl", "dp-fed-bnsl")


@click.group(cls=Group)
def attack() -> None:
    """Attack methods as a curious coordinator would.

    What is attacked are simulated tables; the figures say what the messages of each method give away.

    \b
    Example:
      privfcd attack covariance
    """


@attack.command()
@option("--d", "sizes", default="20", show_default=True, help="Columns; several, separated by commas.")
@option("--rows", type=int, default=5000, show_default=True, help="Rows of each party.")
@option("--method", "methods", type=click.Choice(METHODS), multiple=True, help="May be repeated; all by default.")
@option("--epsilon", type=float, default=10.0, show_default=True, help="Budget of the private methods.")
@option("--delta", type=float, default=None, show_default="1/rows²", help="Their delta.")
@option("--parties", type=int, default=2, show_default=True, help="How many take part; the first is attacked.")
@option("--rho2", type=float, default=1.0, show_default=True, help="Penalty of disagreement.")
@option("--seed", type=int, default=1, show_default=True, help="Of the tables and the simulated noise.")
@plot_option
@json_option
@config_option
@quiet_option
def covariance(
    sizes: str,
    rows: int,
    methods: tuple[str, ...],
    epsilon: float,
    delta: float | None,
    parties: int,
    rho2: float,
    seed: int,
    plot: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """The second moments of a party's rows, from its first message.

    Fed-BNSL's messages can be inverted in closed form. Reported are the relative error of the reconstructed matrix, the
    correlation of its entries off the diagonal with the true ones, the AUC of a membership test on it (0.5 is chance),
    and what two runs that differ in one record reveal: the error of that record, and the share of as many others that it is
    told from. "sent" counts the message's numbers.

    \b
    Examples:
      privfcd attack covariance
      privfcd attack covariance --d 20,100,200 --method fed-bnsl --plot attack.png
    """
    from privfcd import checks

    try:
        columns = [int(part) for part in sizes.split(",")]
    except ValueError as error:
        raise checks.refuse("d", sizes, "whole numbers, separated by commas") from error
    for d in columns:
        checks.count("d", d, least=2)
        checks.count("rows", rows, least=d + 1)
    check_files(plot)
    from privfcd.audits.attack import METHODS as KNOWN
    from privfcd.audits.attack import attack_covariance

    chosen = list(dict.fromkeys(methods)) or list(KNOWN)
    reports: list[AttackReport] = []
    with progress("attack", quiet=as_json or quiet) as done:
        for d in columns:
            before = len(reports)
            reports += attack_covariance(
                d, rows, chosen, epsilon=epsilon, delta=delta, parties=parties, rho2=rho2, seed=seed,
                on_progress=lambda one, _, before=before: done(before + one, len(columns) * len(chosen)),  # type: ignore[misc]
            )  # fmt: skip
    if plot is not None:
        from privfcd.reports import draw_attack

        draw_attack(reports, plot)
    if as_json:
        print_json({"seed": seed, "parties": parties, "rho2": rho2, "attacks": [one.as_dict() for one in reports]})
        return
    _print(reports, rows)


def _print(reports: list[AttackReport], rows: int) -> None:
    from rich.table import Table

    table = Table(title=f"Second moments from a first message; {rows} rows a party", title_justify="left")
    table.add_column("method", no_wrap=True)
    for heading in ("d", "epsilon", "sent", "error", "off-diagonal r", "AUC", "± sd", "record error", "record rank"):
        table.add_column(heading, justify="right")
    for index, one in enumerate(reports):
        if index and one.d != reports[index - 1].d:
            table.add_section()
        table.add_row(
            one.method,
            str(one.d),
            significant(one.epsilon),
            f"{one.entries:,}",
            significant(one.relative_error, 2),
            f"{one.off_diagonal_correlation:.3f}",
            f"{one.membership.auc:.3f}",
            f"{one.membership.auc_sd:.3f}",
            significant(one.record_error, 2),
            f"{one.record_rank:.4f}",
        )
    console().print(table)
