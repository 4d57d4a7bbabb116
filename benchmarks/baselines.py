"""What simulated data give away: graphs read from the order of variances, or of R², and regressions.

Reisach, Seiler and Weichwald, "Beware of the Simulated DAG!" (2021): in data from linear equations with equal error
variances, variances mostly grow along the graph, so that sorting by them and regressing does as well as learners do.
Standardised columns have no such order; the same authors' R²-sorting (2023, "A Scale-Invariant Sorting Criterion to Find a
Causal Order in Additive Noise Models") sorts by how well each column is explained by all others, whatever the units.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean, stdev

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import SeedList
from benchmarks.paper.experiments import PARTIES, ROWS
from privfcd.datasets.simulate import linear_gaussian
from privfcd.graphs import compare

Array = NDArray[np.float64]

THRESHOLD = 0.3
"""Weights below it are no edges, as in the paper's tables; of standardised columns, in the raw columns' units."""


def by_variance(covariance: Array) -> NDArray[np.intp]:
    """Return the columns in the order of their variances."""
    return np.argsort(np.diag(covariance), kind="stable")


def by_r2(covariance: Array) -> NDArray[np.intp]:
    """Return the columns in the order of their R² given all others, 1 - 1 / (variance times precision)."""
    return np.argsort(1 - 1 / (np.diag(covariance) * np.diag(np.linalg.inv(covariance))), kind="stable")


def sorted_regressions(covariance: Array, order: NDArray[np.intp]) -> Array:
    """Return weights [i, j] of i -> j: each column regressed on all that come before it in the order."""
    weights = np.zeros_like(covariance)
    for place, j in enumerate(order):
        earlier = order[:place]
        weights[earlier, j] = np.linalg.solve(covariance[np.ix_(earlier, earlier)], covariance[earlier, j])
    return weights


@click.command()
@click.option("--d", type=click.IntRange(2), default=20, show_default=True, help="Number of columns.")
@click.option("--seeds", default="2-11", show_default=True, type=SeedList(), help="Instances, such as 2-11 or 2,5.")
def baselines(d: int, seeds: list[int]) -> None:
    """SHD of sorting by variance, and by R², and regressing: the paper's data, raw and standardised, without privacy."""
    sorts: dict[str, Callable[[Array], NDArray[np.intp]]] = {"variance": by_variance, "R²": by_r2}
    found: dict[tuple[str, str], list[float]] = {}
    for seed in seeds:
        truth, parts = linear_gaussian(d, parties=PARTIES, rows=ROWS, seed=seed)
        covariance = np.cov(np.vstack(list(parts)).T, bias=True)
        sds = np.sqrt(np.diag(covariance))
        for columns, used in (("raw", covariance), ("standardised", covariance / np.outer(sds, sds))):
            for name, sort in sorts.items():
                weights = sorted_regressions(used, sort(used))
                if columns == "standardised":
                    weights = weights / sds[:, None] * sds
                kept = np.where(np.abs(weights) > THRESHOLD, weights, 0.0)
                found.setdefault((name, columns), []).append(float(compare(truth, kept).shd))
    click.echo(f"SHD at d = {d}, {PARTIES} parties of {ROWS} rows, no privacy, {len(seeds)} seeds: mean ± sd")
    for (name, columns), values in found.items():
        spread = stdev(values) if len(values) > 1 else 0.0
        click.echo(f"sorted by {name:<9} {columns:<13} {fmean(values):6.2f} ± {spread:.2f}")
