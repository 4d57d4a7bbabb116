"""privfcd audit: what a mechanism leaks, measured, beside what it claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from privfcd.cli.audit_algorithm import algorithm
from privfcd.cli.commands import Group, option
from privfcd.cli.config import config_option
from privfcd.cli.options import all_of, json_option, quiet_option
from privfcd.cli.output import console, echo, print_json, significant
from privfcd.cli.pictures import check_files, plot_option
from privfcd.cli.progress import progress
from privfcd.cli.verdict import VIOLATED, end_with

if TYPE_CHECKING:
    from privfcd.audits import AuditReport

Function = TypeVar("Function", bound=Callable[..., Any])

MOST_RUNS = 10**9


@click.group(cls=Group)
def audit() -> None:
    """Check mechanisms and queries empirically.

    A lower bound on the privacy loss, measured on two neighbouring inputs, beside what is claimed. "No fault found" is
    never "private". Exit code 1: the claim is violated.

    \b
    Examples:
      privfcd audit gaussian --epsilon 1 --delta 1e-6
      privfcd audit algorithm
      privfcd audit sensitivity
    """


audit.add_command(algorithm)


def _options(function: Function) -> Function:
    return all_of(
        function,
        option(
            "--scale", type=float, default=None, help="Noise scale to audit; the one that the claim needs by default."
        ),
        option("--sensitivity", type=float, default=1.0, show_default=True, help="Of the query that is audited."),
        option("--runs", type=int, default=1_000_000, show_default=True, help="Runs on each of the two inputs."),
        option("--confidence", type=float, default=0.95, show_default=True, help="Of the lower bound."),
        option(
            "--noise",
            type=click.Choice(["simulated", "secure"]),
            default="simulated",
            show_default=True,
            help="Source of the noise.",
        ),
        option("--seed", type=int, default=0, show_default=True, help="Seed of simulated noise."),
        plot_option,
        json_option,
        config_option,
        quiet_option,
    )


@audit.command()
@option("--epsilon", type=float, required=True, help="Claimed epsilon.")
@option("--delta", type=float, required=True, help="Claimed delta.")
@_options
def gaussian(epsilon: float, delta: float, scale: float | None, sensitivity: float, **options: Any) -> None:
    """Gaussian noise: does it keep (epsilon, delta)?

    \b
    Examples:
      privfcd audit gaussian --epsilon 1 --delta 1e-6 --plot audit.png
      privfcd audit gaussian --epsilon 1 --delta 1e-6 --scale 2   # too little: violated
    """
    from privfcd.accounting import gaussian_sigma
    from privfcd.mechanisms import Gaussian

    sigma = gaussian_sigma(epsilon, delta, sensitivity)
    _run(Gaussian(sigma if scale is None else scale), epsilon, delta, sensitivity, options)


@audit.command()
@option("--epsilon", type=float, required=True, help="Claimed epsilon.")
@_options
def laplace(epsilon: float, scale: float | None, sensitivity: float, **options: Any) -> None:
    """Laplace noise: does it keep pure epsilon?

    \b
    Example:
      privfcd audit laplace --epsilon 1
    """
    from privfcd import checks
    from privfcd.mechanisms import Laplace

    fitting = sensitivity / checks.positive("epsilon", epsilon)
    _run(Laplace(fitting if scale is None else scale), epsilon, 0.0, sensitivity, options)


@audit.command()
@option("--epsilon", type=float, required=True, help="Claimed epsilon.")
@_options
def gumbel(epsilon: float, scale: float | None, sensitivity: float, **options: Any) -> None:
    """Selection by Gumbel-max: does it keep pure epsilon?

    It should keep 2 sensitivity / scale.

    \b
    Example:
      privfcd audit gumbel --epsilon 1 --runs 100000
    """
    from privfcd import checks
    from privfcd.mechanisms import GumbelMax

    fitting = 2 * sensitivity / checks.positive("epsilon", epsilon)
    _run(GumbelMax(fitting if scale is None else scale), epsilon, 0.0, sensitivity, options)


@audit.command()
@option("--epsilon", type=float, required=True, help="Claimed epsilon.")
@option("--delta", type=float, required=True, help="Claimed delta.")
@_options
def covariance(epsilon: float, delta: float, scale: float | None, sensitivity: float, **options: Any) -> None:
    """Noise on a covariance: does it keep (epsilon, delta)?

    The noise is Gaussian and symmetric.

    \b
    Example:
      privfcd audit covariance --epsilon 1 --delta 1e-6 --runs 100000
    """
    from privfcd.mechanisms import AnalyticGaussian

    mechanism = AnalyticGaussian.calibrated(epsilon, delta, sensitivity) if scale is None else AnalyticGaussian(scale)
    _run(mechanism, epsilon, delta, sensitivity, options)


@audit.command()
@option("--rows", type=int, default=50, show_default=True, help="Rows of the searched tables.")
@option("--columns", type=int, default=3, show_default=True, help="Columns of the searched tables.")
@option("--evaluations", type=int, default=1500, show_default=True, help="Evaluations for each query.")
@option("--seed", type=int, default=0, show_default=True, help="Of the search.")
@plot_option
@json_option
@config_option
@quiet_option
def sensitivity(
    rows: int, columns: int, evaluations: int, seed: int, plot: str | None, as_json: bool, quiet: bool
) -> None:
    """Every query: does a record move it more than it claims?

    Neighbouring tables are searched for that do.

    \b
    Example:
      privfcd audit sensitivity
    """
    from privfcd import checks
    from privfcd.audits import search_sensitivity
    from privfcd.audits.standard import standard_queries

    checks.count("rows", rows)
    checks.count("columns", columns, least=2)
    check_files(plot)
    queries = standard_queries(columns)
    found = []
    with progress("search", quiet=as_json or quiet) as done:
        for query in queries:
            found.append(search_sensitivity(query, rows, columns, evaluations=evaluations, seed=seed))
            done(len(found), len(queries))
    if plot is not None:
        from privfcd.reports import draw_sensitivities

        draw_sensitivities(found, plot)
    if as_json:
        print_json({"queries": [report.as_dict() for report in found]})
    else:
        from rich.table import Table

        table = Table(title=f"Sensitivity search on tables of {rows} x {columns}", title_justify="left")
        table.add_column("query")
        for heading in ("claimed", "found", "ratio"):
            table.add_column(heading, justify="right")
        table.add_column("verdict")
        for report in found:
            numbers = [significant(value) for value in (report.claimed, report.found, report.ratio)]
            table.add_row(report.query, *numbers, report.verdict)
        console().print(table)
    if any(report.verdict == "violated" for report in found):
        raise click.exceptions.Exit(VIOLATED)


@audit.command()
@option("--noise", type=click.Choice(["simulated", "secure"]), default="secure", show_default=True,
        help="The source.")  # fmt: skip
@option("--seed", type=int, default=0, show_default=True, help="Seed of simulated noise.")
@option("--draws", type=int, default=100_000, show_default=True, help="Numbers of each law, and selections.")
@option("--level", type=float, default=1e-6, show_default=True, help="Probability of an alarm about a right source.")
@plot_option
@json_option
@config_option
@quiet_option
def sampler(noise: str, seed: int, draws: int, level: float, plot: str | None, as_json: bool, quiet: bool) -> None:
    """A source of noise: its laws, and its low digits.

    The low digits of a noisy sum can betray it.
    Simulated noise has the right laws and fails the second test: it protects nobody.

    \b
    Example:
      privfcd audit sampler --draws 1000000
    """
    from privfcd.audits import check_sampler
    from privfcd.mechanisms import SecureNoise, SimulatedNoise

    check_files(plot)
    with progress("sample", quiet=as_json or quiet):
        report = check_sampler(SecureNoise() if noise == "secure" else SimulatedNoise(seed), draws=draws, level=level)
    if plot is not None:
        from privfcd.reports import draw_sampler

        draw_sampler(report, plot)
    if as_json:
        print_json({"ok": report.ok, **report.as_dict()})
    else:
        echo(report)
    if not report.ok:
        raise click.exceptions.Exit(VIOLATED)


def _run(mechanism: Any, epsilon: float, delta: float, sensitivity: float, options: dict[str, Any]) -> None:
    from privfcd import checks
    from privfcd.audits import Claim
    from privfcd.audits import audit as run_audit
    from privfcd.mechanisms import SecureNoise, SimulatedNoise

    if options["runs"] > MOST_RUNS:
        raise checks.refuse("runs", options["runs"], f"at most {MOST_RUNS:,}")
    noise = SecureNoise() if options["noise"] == "secure" else SimulatedNoise(options["seed"])
    check_files(options["plot"])
    with progress("audit", quiet=options["as_json"] or options["quiet"]):
        report: AuditReport = run_audit(
            mechanism,
            Claim(epsilon, delta),
            runs=options["runs"],
            sensitivity=sensitivity,
            confidence=options["confidence"],
            noise=noise,
        )
    if options["plot"] is not None:
        from privfcd.reports import draw_audit

        draw_audit(report, options["plot"])
    end_with(report, options["as_json"], mechanism=repr(mechanism))
