"""privfcd noise: the scale for a target."""

from __future__ import annotations

import math
from typing import Any

import click

from privfcd.cli.commands import Command, option
from privfcd.cli.options import json_option
from privfcd.cli.output import console, print_json, significant


@click.command(cls=Command)
@option("--epsilon", type=float, required=True, help="Target epsilon, above 0.")
@option("--delta", type=float, default=0.0, show_default=True, help="Target delta, in [0, 1).")
@option("--selections", type=int, default=0, show_default=True, help="Exponential-mechanism selections.")
@option("--gaussians", type=int, default=0, show_default=True, help="Releases with Gaussian noise.")
@option("--laplaces", type=int, default=0, show_default=True, help="Releases with Laplace noise.")
@option("--sensitivity", type=float, default=1.0, show_default=True, help="Sensitivity of every release.")
@option("--accountant", default=None, help="Only this one: tight, zcdp, zcdp-loose or pure. All by default.")
@json_option
def noise(
    epsilon: float,
    delta: float,
    selections: int,
    gaussians: int,
    laplaces: int,
    sensitivity: float,
    accountant: str | None,
    as_json: bool,
) -> None:
    """Compute the noise for a target (epsilon, delta).

    Prints, for each accountant, the one scale that all releases may share: the standard deviation of Gaussian noise, b
    of Laplace noise, b of the Gumbel noise in a selection with P ∝ exp(score/b).

    \b
    Examples:
      privfcd noise --epsilon 1 --delta 1e-6 --gaussians 1
      privfcd noise --epsilon 5 --delta 4e-8 --selections 2000 --gaussians 2000
    """
    from privfcd.accounting.calibration import calibrate
    from privfcd.accounting.registry import ACCOUNTANTS, DEFAULT_ACCOUNTANT

    names = list(ACCOUNTANTS) if accountant is None else [accountant]
    counts = {"selections": selections, "gaussians": gaussians, "laplaces": laplaces}
    rows: list[dict[str, Any]] = []
    left_out: dict[str, str] = {}
    for name in names:
        if name == "pure" and accountant is None and gaussians and delta:
            left_out[name] = "no Gaussian noise is purely private"
            continue
        plan = calibrate(epsilon, delta, **counts, sensitivity=sensitivity, accountant=name)
        scale = plan.gaussian_scale or plan.selection_scale or plan.laplace_scale
        assert scale is not None
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
    if as_json:
        target = {"epsilon": epsilon, "delta": delta, "sensitivity": sensitivity}
        print_json({**target, **counts, "plans": rows, "left_out": left_out})
        return
    _print(rows, epsilon, delta)
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
