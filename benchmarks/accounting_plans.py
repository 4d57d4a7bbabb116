"""Random plans of releases with fixed laws, by the tight accountant and by others."""

from __future__ import annotations

import logging
import math
import random
from functools import reduce
from typing import Any

from dp_accounting import DpEvent, NeighboringRelation, UnsupportedEventError
from dp_accounting.dp_event import DiscreteLaplaceDpEvent, RandomizedResponseDpEvent
from dp_accounting.pld import privacy_loss_distribution as pld

from privfcd.accounting import (
    GaussianDpEvent,
    LaplaceDpEvent,
    TightAccountant,
    ZCDPAccountant,
    compose,
    epsilon_of,
)
from privfcd.cli.output import console, print_json

Plan = list[tuple[DpEvent, int]]


def random_plan(draw: random.Random) -> Plan:
    """Return one to five kinds of releases, 1 to 30 of each."""

    def release() -> DpEvent:
        match draw.choice("gldrb"):
            case "g":
                return GaussianDpEvent(10 ** draw.uniform(0, 1.5))
            case "l":
                return LaplaceDpEvent(10 ** draw.uniform(-0.3, 1.7))
            case "d":
                return DiscreteLaplaceDpEvent(10 ** draw.uniform(-2, 0), draw.choice([1, 2, 5, 20]))
            case "r":
                return RandomizedResponseDpEvent(draw.uniform(0.2, 0.95), 2)
        return RandomizedResponseDpEvent(draw.uniform(0.2, 0.95), draw.choice([3, 10]))

    return [(release(), draw.choice([1, 1, 1, 2, 3, 10, 30])) for _ in range(draw.randint(1, 5))]


def distribution(event: DpEvent, count: int) -> Any:
    """Return dp_accounting's pessimistic distribution for a replaced record, our sensitivities taken as they are."""
    match event:
        case GaussianDpEvent():
            return pld.from_gaussian_mechanism(event.noise_multiplier / math.sqrt(count))
        case LaplaceDpEvent():
            one = pld.from_laplace_mechanism(event.noise_multiplier)
        case DiscreteLaplaceDpEvent():
            one = pld.from_discrete_laplace_mechanism(event.noise_parameter, event.sensitivity)
        case RandomizedResponseDpEvent():
            replaced = NeighboringRelation.REPLACE_ONE
            one = pld.from_randomized_response(event.noise_parameter, event.num_buckets, neighboring_relation=replaced)
        case _:
            raise AssertionError(event)
    return one.self_compose(count) if count > 1 else one


def compare(plans: int, seed: int, as_json: bool) -> None:
    """Print by how much the tight epsilon is above or below what others report, worst and median over the plans."""
    draw = random.Random(seed)
    logging.disable(logging.WARNING)  # of dp_accounting, about its own discretisation
    ratios: dict[str, list[float]] = {"dp_accounting PLD": [], "basic composition": [], "zCDP": []}
    for _ in range(plans):
        plan, delta = random_plan(draw), 10 ** draw.uniform(-10, -2)
        ours = TightAccountant().compose(compose(plan)).get_epsilon(delta)
        whole = reduce(lambda a, b: a.compose(b), (distribution(*part) for part in plan))
        ratios["dp_accounting PLD"].append(ours / whole.get_epsilon_for_delta(delta))
        gaussian = [part for part in plan if isinstance(part[0], GaussianDpEvent)]
        others = [part for part in plan if not isinstance(part[0], GaussianDpEvent)]
        basic = epsilon_of(compose(gaussian), delta) + epsilon_of(compose(others), 0.0)
        ratios["basic composition"].append(ours / basic)
        try:
            ratios["zCDP"].append(ours / ZCDPAccountant().compose(compose(plan)).get_epsilon(delta))
        except UnsupportedEventError:
            continue  # discrete Laplace noise and randomised response have no zCDP cost there
    logging.disable(logging.NOTSET)
    rows = [
        {"other": name, "plans": len(found), "worst": max(found), "median": sorted(found)[len(found) // 2]}
        for name, found in ratios.items()
        if found
    ]
    if as_json:
        print_json({"plans": plans, "seed": seed, "rows": rows})
        return
    from rich.table import Table

    table = Table(
        title=f"Tight epsilon as a share of the other's, {plans} random plans (seed {seed})", title_justify="left"
    )
    for heading in rows[0]:
        table.add_column(heading)
    for row in rows:
        table.add_row(*(f"{value:.6g}" if isinstance(value, float) else str(value) for value in row.values()))
    console().print(table)
