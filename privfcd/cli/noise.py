"""privfcd noise: the scale for a target."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from privfcd.cli.commands import Command, option
from privfcd.cli.options import json_option
from privfcd.cli.output import console, print_json, significant
from privfcd.cli.pictures import check_files, plot_option

if TYPE_CHECKING:
    from privfcd.accounting.calibration import NoisePlan

FALSE_POSITIVES = 0.01


@click.command(cls=Command)
@option("--epsilon", type=float, required=True, help="Target epsilon, above 0.")
@option("--delta", type=float, default=0.0, show_default=True, help="Target delta, in [0, 1).")
@option("--selections", type=int, default=0, show_default=True, help="Exponential-mechanism selections.")
@option("--gaussians", type=int, default=0, show_default=True, help="Releases with Gaussian noise.")
@option("--laplaces", type=int, default=0, show_default=True, help="Releases with Laplace noise.")
@option("--sensitivity", type=float, default=1.0, show_default=True, help="Sensitivity of every release.")
@option("--accountant", default=None, help="Only this one: tight, zcdp, zcdp-loose or pure. All by default.")
@plot_option
@json_option
def noise(
    epsilon: float,
    delta: float,
    selections: int,
    gaussians: int,
    laplaces: int,
    sensitivity: float,
    accountant: str | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Compute the noise for a target (epsilon, delta).

    Prints, for each accountant, the one scale that all releases may share: the standard deviation of Gaussian noise, b
    of Laplace noise, b of the Gumbel noise in a selection with P ∝ exp(score/b). --plot draws delta at every epsilon and the
    most that an attacker can reach.

    \b
    Examples:
      privfcd noise --epsilon 1 --delta 1e-6 --gaussians 1
      privfcd noise --epsilon 5 --delta 4e-8 --selections 2000 --gaussians 2000
      privfcd noise --epsilon 1 --delta 1e-6 --gaussians 10 --plot curves.svg
    """
    check_files(plot)
    from privfcd.accounting.calibration import calibrate
    from privfcd.accounting.registry import ACCOUNTANTS, DEFAULT_ACCOUNTANT
    from privfcd.accounting.tradeoff import true_positive_rate

    names = list(ACCOUNTANTS) if accountant is None else [accountant]
    counts = {"selections": selections, "gaussians": gaussians, "laplaces": laplaces}
    rows: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    drawn: NoisePlan | None = None
    for name in names:
        if name == "pure" and accountant is None and gaussians and delta:
            left_out[name] = "no Gaussian noise is purely private"
            continue
        plan = calibrate(epsilon, delta, **counts, sensitivity=sensitivity, accountant=name)
        scale = plan.gaussian_scale or plan.selection_scale or plan.laplace_scale
        assert scale is not None
        if drawn is None or name == DEFAULT_ACCOUNTANT:
            drawn = plan
        rows.append(
            {
                "accountant": name,
                "bound": plan.method,
                "default": name == DEFAULT_ACCOUNTANT,
                "scale": scale,
                "gaussian_sd": plan.gaussian_scale,
                "selection_scale": plan.selection_scale,
                "selection_sd": None if plan.selection_scale is None else math.pi / math.sqrt(6) * scale,
                "laplace_scale": plan.laplace_scale,
                "laplace_sd": None if plan.laplace_scale is None else math.sqrt(2) * scale,
                "rho": plan.rho,
                "epsilon_spent": plan.epsilon,
                "delta": plan.delta,
            }
        )
    assert drawn is not None
    caught = true_positive_rate(drawn.event, FALSE_POSITIVES)
    if plot is not None:
        from privfcd.reports.privacy_picture import draw_privacy

        title = f"Noise for epsilon = {epsilon:g}, delta = {delta:g}: scale {significant(rows[0]['scale'], 6)}"
        draw_privacy(drawn.event, plot, delta=delta or None, title=title)
    if as_json:
        attacker = {"false_positive_rate": FALSE_POSITIVES, "true_positive_rate_at_most": caught}
        target = {"epsilon": epsilon, "delta": delta, "sensitivity": sensitivity}
        print_json({**target, **counts, "plans": rows, "left_out": left_out, "attacker": attacker})
        return
    _print(rows, epsilon, delta)
    click.echo(
        f"An attacker who may be wrong {100 * FALSE_POSITIVES:g} % of the time about whether a record is there is right at "
        f"most {100 * caught:.3g} % of the time."
    )
    if plot is not None:
        click.echo(f"{plot}: delta at every epsilon, and the attacker's curve")
    for name, why in left_out.items():
        click.echo(f"{name}: {why}")


def _print(rows: list[dict[str, Any]], epsilon: float, delta: float) -> None:
    from rich.table import Table

    table = Table(title=f"Noise for epsilon = {epsilon:g}, delta = {delta:g}", title_justify="left")
    table.add_column("accountant")
    table.add_column("bound")
    for heading in ("scale b = sigma", "Gaussian sd", "Gumbel sd", "Laplace sd", "rho", "epsilon spent"):
        table.add_column(heading, justify="right")
    for row in rows:
        values = [row[key] for key in ("scale", "gaussian_sd", "selection_sd", "laplace_sd", "rho", "epsilon_spent")]
        name = row["accountant"] + (" (default)" if row["default"] else "")
        table.add_row(name, row["bound"], *("-" if value is None else significant(value, 8) for value in values))
    console().print(table)
