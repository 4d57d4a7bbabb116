"""Pairs that come from elsewhere: dp_accounting's distributions, a distribution given as numbers, and secret samples.

**dp_accounting.** Poisson sampling, truncated Poisson sampling and mixtures of Gaussians have dominating pairs whose two
directions differ (a record added, a record removed). Their pessimistic distributions are taken as they are, one release at a
time; they are composed here. Each holds for one neighbouring relation, and an accountant of another one refuses it.

**A secret sample.** The m rows that a release uses are drawn without replacement from n rows, by the owner, afresh for each
release and kept secret. For q = m / n and one replaced row: where (P, Q) dominates the release on its m rows, the curve at
e >= 0 is that of (q P + (1 - q) Q, Q), and below 0 that of the pair exchanged (Balle, Barthe and Gaboardi 2018, Theorem 9;
Zhu, Dong and Wang 2022, Proposition 30). With H the curve of (P, Q),

    sup over E of q P(E) + (1 - q) Q(E) - exp(e) Q(E) = q H(e'),   e' = log(1 + (exp(e) - 1) / q).

Bounds at the nodes of a grid, connected in exp(e), bound it between them, because it is convex there. Where the release
is epsilon-DP, the sampled one is log(1 + q (exp(epsilon) - 1))-DP. Its zCDP cost is taken to be the release's own: a
sample is a mixture over pairs of tables that are equal or neighbours, and Rényi divergences are quasi-convex.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, LaplaceDpEvent, NeighboringRelation, PoissonSampledDpEvent
from dp_accounting.dp_event import (
    MixtureOfGaussiansDpEvent,
    SampledWithoutReplacementDpEvent,
    TruncatedSubsampledGaussianDpEvent,
)

from privfcd.accounting.accountants import pure_cost
from privfcd.accounting.curves import EPS, Array, Curve, gaussian_values
from privfcd.accounting.events import REPLACE_ONE, BoundedRangeDpEvent, EpsilonDeltaDpEvent, PrivacyLossDpEvent, leaves
from privfcd.accounting.lattice import Law, split
from privfcd.accounting.pairs import law_of_curve

FOREIGN = (PoissonSampledDpEvent, TruncatedSubsampledGaussianDpEvent, MixtureOfGaussiansDpEvent)
IMPORTED = (*FOREIGN, PrivacyLossDpEvent, SampledWithoutReplacementDpEvent)

_INTERVAL = 1e-4
_MOST_NODES = 2**15


def why_not_imported(event: DpEvent, relation: NeighboringRelation) -> str | None:
    """Return why an event of `IMPORTED` cannot be accounted for under `relation`; None where it can."""
    if isinstance(event, SampledWithoutReplacementDpEvent):
        if relation is not REPLACE_ONE:
            return "a sample without replacement is amplified for a replaced record only"
        inner = leaves(event.event)
        simple = (GaussianDpEvent, LaplaceDpEvent, BoundedRangeDpEvent)
        known = len(inner) == 1 and (
            isinstance(inner[0][0], GaussianDpEvent)
            or (inner[0][1] == 1 and isinstance(inner[0][0], simple))
            or (inner[0][1] == 1 and isinstance(inner[0][0], EpsilonDeltaDpEvent) and inner[0][0].delta == 0)
        )
        return None if known else "a sample must be used for one release of known law, or for Gaussian noise"
    if isinstance(event, PrivacyLossDpEvent):
        return None
    from dp_accounting.pld import PLDAccountant

    # for a replaced record dp_accounting reads noise multipliers for an added one, and we for the replaced one
    if relation is not REPLACE_ONE and PLDAccountant(relation).supports(event):
        return None
    return f"dp_accounting has no distribution of it under {relation.name}"


@lru_cache(maxsize=64)
def imported_laws(event: DpEvent, relation: NeighboringRelation, level: float) -> tuple[Law, Law]:
    """Return the laws of an event of `IMPORTED` and of the exchanged pair; deltas below `level` are of no interest."""
    if isinstance(event, SampledWithoutReplacementDpEvent):
        law = _sampled_law(event, level)
        return law, law
    if isinstance(event, PrivacyLossDpEvent):
        one = _law_of_numbers(np.array(event.losses), np.array(event.masses))
        if event.reverse_losses is None:
            return one, one
        return one, _law_of_numbers(np.array(event.reverse_losses), np.array(event.reverse_masses))
    from dp_accounting.pld import PLDAccountant

    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        found = PLDAccountant(relation, _INTERVAL).compose(event)._pld
    finally:
        logger.setLevel(before)
    return _law_of_pmf(found._pmf_remove), _law_of_pmf(found._pmf_add)


def coarse(law: Law, count: int) -> Law:
    """Return a law on a grid that is as coarse as `count` releases allow: it adds some 1e-4 of their variance at most."""
    most = 20 * math.sqrt(count * law.spread) / 2**15 / max(1.0, math.sqrt(count / 500))
    step = 2.0 ** math.floor(math.log2(most))
    if step <= law.step:
        return law
    first, masses = split(law.losses(), law.masses, step)
    return Law(first * step, step, masses, law.spread, law.infinite)


def _law_of_pmf(pmf: object) -> Law:
    dense = pmf.to_dense_pmf()  # type: ignore[attr-defined]
    masses, step = np.asarray(dense._probs, dtype=np.float64), float(dense._discretization)
    masses = np.maximum(masses, 0.0)
    origin = float(dense._lower_loss) * step
    missing = max(0.0, 1.0 - math.fsum(masses) - float(dense._infinity_mass))
    infinite = float(dense._infinity_mass) + missing
    return Law(
        origin,
        step,
        masses,
        _variance(np.asarray(origin + step * np.arange(len(masses)), dtype=np.float64), masses),
        infinite,
    )


def _law_of_numbers(losses: Array, masses: Array) -> Law:
    """Return a law on a grid: each mass at the node above its loss or on both sides of it, as `lattice` splits them."""
    finite = np.isfinite(losses)
    infinite = max(math.fsum(masses[~finite]), 1.0 - math.fsum(masses[finite])) * (1 + 4 * EPS)
    losses, masses = losses[finite], masses[finite]
    order = np.argsort(losses)
    losses, masses = losses[order], masses[order]
    variance = _variance(losses, masses)
    width = float(losses[-1] - losses[0])
    step = 2.0 ** math.floor(math.log2(max(min(_INTERVAL, width / 2**10), width / _MOST_NODES, 1e-12)))
    first, whole = split(losses, masses, step)
    return Law(first * step, step, whole, variance + step**2, max(0.0, infinite))


def _variance(losses: Array, masses: Array) -> float:
    total = float(masses.sum())
    mean = float(masses @ losses) / total
    return float(masses @ (losses - mean) ** 2) / total + 1e-24


def _sampled_law(event: SampledWithoutReplacementDpEvent, level: float) -> Law:
    ((leaf, count),) = leaves(event.event)
    share = event.sample_size / event.source_dataset_size * (1 + 2 * EPS)
    share = min(share, 1.0)
    if isinstance(leaf, GaussianDpEvent):
        variance = count * (1 / leaf.noise_multiplier) ** 2 * (1 + 4 * EPS)
        reach, scale = variance / 2 + math.sqrt(-2 * variance * math.log(level)), math.sqrt(variance)
    else:
        cost = pure_cost(leaf)
        assert cost is not None
        reach = scale = cost
    end = reach if reach > 600 else math.log1p(share * math.expm1(reach)) * (1 + 16 * EPS)
    size = math.ceil(min(max(2**12, 16 * end / min(share * scale, end)), _MOST_NODES))
    nodes = end / size * np.arange(size + 1)
    inner = np.log1p(np.expm1(nodes) / share) * (1 - 16 * EPS)  # a smaller one has the larger value
    match leaf:
        case GaussianDpEvent():
            values = gaussian_values(variance, inner)
        case LaplaceDpEvent():
            values = -np.expm1(np.minimum((inner - reach) / 2, 0.0))
        case BoundedRangeDpEvent():
            values = np.expm1(np.minimum((inner - reach) / 2, 0.0)) ** 2 / -math.expm1(-reach)
        case _:
            values = -np.expm1(np.minimum(inner - reach, 0.0)) / (1 + math.exp(-reach))
    values = np.minimum.accumulate(np.minimum(share * values * (1 + 64 * EPS), 1.0))
    if not isinstance(leaf, GaussianDpEvent):
        values[-1] = 0.0
    law = law_of_curve(Curve(end / size, values), 1.0)
    return replace(law, spread=_variance(law.losses(), law.masses))
