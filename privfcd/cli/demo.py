"""privfcd demo: the Sachs graph from three parties, with bundled data."""

from __future__ import annotations

import time
from typing import Any

import click

from privfcd import checks
from privfcd.algorithms.registry import learner_class
from privfcd.cli.commands import Command, option
from privfcd.cli.config import config_option, origin, reproduced
from privfcd.cli.interrupts import accounted
from privfcd.cli.options import PRIVACY, dry_run_option, noise_options, quiet_option
from privfcd.cli.output import say
from privfcd.cli.planned import print_plan
from privfcd.cli.progress import round_progress
from privfcd.cli.results import check_outputs, finish, output_options
from privfcd.cli.tables import noise_source, refuse_without_privacy

DEMO_EPSILON = 5.0


@click.command(cls=Command)
@dry_run_option
@option("--epsilon", type=float, default=None, show_default=str(DEMO_EPSILON), section=PRIVACY,
        help="Budget of each party; delta is 1/n².")  # fmt: skip
@option("--no-privacy", is_flag=True, section=PRIVACY, help="Exact answers: epsilon = inf.")
@noise_options
@output_options
@config_option
@quiet_option
@click.pass_context
def demo(context: click.Context, /, epsilon: float | None, no_privacy: bool, **options: Any) -> None:
    """Learn the Sachs graph from three hospitals (bundled data).

    The 7466 rows of Sachs et al. (2005), as log(1 + x), are split among three parties; each pays from a budget of its own,
    with delta = 1/n². The result is compared with the 18-edge target of the literature; an empty graph has SHD 18 on it.

    \b
    Examples:
      privfcd demo
      privfcd demo --dry-run
      privfcd demo --epsilon 1 --plot graph.png --report report.html
      privfcd demo --no-privacy --json
    """
    if no_privacy and epsilon is not None:
        raise click.UsageError(f"give --epsilon or --no-privacy, not both{origin(context, 'epsilon', 'no_privacy')}")
    refuse_without_privacy(context)
    if options["stability"] and no_privacy:
        raise click.UsageError("leave out --stability or --no-privacy: exact answers have no noise to draw again")
    if not no_privacy and epsilon is None:
        epsilon = DEMO_EPSILON
    if epsilon is not None:
        checks.positive("epsilon", epsilon)
    noise = noise_source(options)
    check_outputs(options)
    quiet = options["as_json"] or options["quiet"]
    from privfcd.cli.demonstration import PARTIES, TARGET, demo_tables, run_demo

    tables = demo_tables(epsilon=epsilon, noise=noise)
    if options["dry_run"]:
        model = learner_class("fed-sparse")()
        print_plan(model, tables, reproduced(context), as_json=options["as_json"], quiet=quiet)
        return
    if not quiet:
        privacy = "no privacy" if epsilon is None else f"epsilon = {epsilon:g} each"
        say(f"Sachs data, 7466 rows of 11 proteins, split among {', '.join(PARTIES)}; {privacy}", stderr=True)
    from privfcd.datasets.sachs import sachs

    target = sachs().targets[TARGET]
    began = time.perf_counter()
    with accounted(tables):
        with round_progress(quiet, target) as on_round:
            result = run_demo(tables=tables, on_round=on_round)
        finish(result.model, time.perf_counter() - began, target, options, reproduced(context))
