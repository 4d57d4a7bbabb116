"""How tight the tight accountant is: 2000 selections and 2000 Gaussian releases, and a few other mixes."""

from __future__ import annotations

import time

import click

from privfcd.accounting import TightAccountant, calibrate, epsilon_of
from privfcd.cli.options import json_option
from privfcd.cli.output import console, print_json

DELTA = 4e-8
MIXES = ((2000, 2000), (100, 100), (10, 10), (1000, 0))
TARGETS = (1.0, 5.0, 10.0, 50.0)


@click.command()
@click.option("--quick", is_flag=True, help="Only 2000 selections and 2000 Gaussians.")
@click.option("--plans", type=click.IntRange(1), help="Compare so many random plans with other accountants instead.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the random plans.")
@json_option
def accounting(quick: bool, plans: int | None, seed: int, as_json: bool) -> None:
    """Epsilon by every accountant for noise that the loose zCDP formula sets, at delta = 4e-8.

    `lower` is what some adversary reaches, `upper` what is reported: the truth lies between. `tight noise` is the scale that
    the tight accountant asks for, as a share of the loose formula's.
    """
    if plans is not None:
        from benchmarks.accounting_plans import compare

        compare(plans, seed, as_json)
        return
    rows = []
    for selections, gaussians in MIXES[: 1 if quick else None]:
        for target in TARGETS:
            loose = calibrate(target, DELTA, selections=selections, gaussians=gaussians, accountant="zcdp-loose")
            accountant = TightAccountant().compose(loose.event)
            began = time.perf_counter()
            upper = accountant.get_epsilon(DELTA)
            seconds = time.perf_counter() - began
            began = time.perf_counter()
            tight = calibrate(target, DELTA, selections=selections, gaussians=gaussians)
            calibration = time.perf_counter() - began
            assert tight.selection_scale is not None and loose.selection_scale is not None
            rows.append(
                {
                    "selections": selections,
                    "gaussians": gaussians,
                    "loose zCDP": target,
                    "tight zCDP": epsilon_of(loose.event, DELTA, "zcdp"),
                    "lower": accountant.gap(DELTA)[0],
                    "upper": upper,
                    "gap %": 100 * (upper / accountant.gap(DELTA)[0] - 1),
                    "bound": accountant.method(DELTA),
                    "seconds": seconds,
                    "tight noise": tight.selection_scale / loose.selection_scale,
                    "calibration s": calibration,
                }
            )
    if as_json:
        print_json({"delta": DELTA, "rows": rows})
        return
    from rich.table import Table

    table = Table(title=f"Epsilon at delta = {DELTA:g}", title_justify="left")
    for heading in rows[0]:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*(f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values()))
    console().print(table)
