"""The same job under different noise and accounting: what K T selections and K T updates cost in each regime.

A selection is taken on scores of sensitivity 1 that one record may move in both directions, an update releases one
number of sensitivity 1, and both have noise of one scale s. The regimes:

- Laplace noise for both and advanced composition, as Mangold et al. 2023 ("High-dimensional private empirical risk
  minimization by greedy coordinate descent") publish it: every release is charged 1/s. For the selection that is
  proven only where one record moves all scores in the same direction, so the epsilon of this row is not a
  guarantee.
- The same, as it can be proven: a Laplace noisy maximum of such scores costs 2/s (Dwork and Roth 2014, Section
  3.3), and advanced composition adds unequal epsilons as sqrt(2 log(1/delta) sum e²) + sum e (exp(e) - 1) (Azuma's
  inequality, with losses bounded by e and of mean at most e (exp(e) - 1)).
- Gumbel noise to select and Gaussian noise to update, by zCDP, with the loose conversion rho + 2 sqrt(rho
  log(1/delta)) (the paper of DP-Fed-Sparse-BNSL), with the tight one, and with any tighter accountant that
  `privfcd.accounting` has.

Scales of different noises mean different things, so every scale comes with its standard deviation: sqrt(2) s for
Laplace, pi/sqrt(6) s for Gumbel, s for Gaussian noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from privfcd import checks
from privfcd.accounting import compose, epsilon_of, gaussian_event, selection_event
from privfcd.accounting.registry import ACCOUNTANTS
from privfcd.accounting.roots import falling_root
from privfcd.errors import InvalidParameter

SD_OF_SCALE = {"gumbel": math.pi / math.sqrt(6), "laplace": math.sqrt(2), "gaussian": 1.0}
"""Standard deviation of each noise at scale 1."""

PUBLISHED, PROVEN = "mangold-published", "mangold-proven"

REFERENCE = "zcdp-loose"
"""The regime at whose noise all others are asked for their epsilon: that of the paper."""


@dataclass(frozen=True)
class Regime:
    """A choice of noise and of accounting.

    Attributes
    ----------
    name : str
    selection_noise, update_noise : str
        `"gumbel"`, `"laplace"` or `"gaussian"`.
    spend : function of (selection scale, update scale, pairs, delta)
        Returns epsilon.
    proven : bool
        Whether that epsilon is a guarantee for scores that one record moves in both directions.
    note : str
    """

    name: str
    selection_noise: str
    update_noise: str
    spend: Callable[[float, float, int, float], float]
    proven: bool
    note: str


@dataclass(frozen=True)
class RegimeRow:
    """One regime at one target.

    Attributes
    ----------
    regime : str
    selection_noise, update_noise : str
    scale : float
        Of both noises, as the target needs it, in units of the sensitivity.
    selection_sd, update_sd : float
        Standard deviations of the two noises at that scale.
    epsilon : float
        What the regime says is spent at that scale: at most the target.
    epsilon_same_scale : float
        What it says when its scale is the reference's (the loose zCDP regime at the target).
    epsilon_same_update_sd : float
        What it says at one scale for which the update's noise has the reference's standard deviation (the
        comparison "for the same noise variance" of the paper's appendix A.4).
    epsilon_same_sd : float
        What it says when the selection's and the update's noise each have the reference's standard deviation.
    proven : bool
    note : str
    """

    regime: str
    selection_noise: str
    update_noise: str
    scale: float
    selection_sd: float
    update_sd: float
    epsilon: float
    epsilon_same_scale: float
    epsilon_same_update_sd: float
    epsilon_same_sd: float
    proven: bool
    note: str

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-able values."""
        return asdict(self)


@dataclass(frozen=True)
class RegimeFactor:
    """How much worse Mangold 2023 is than one regime at one target; below 1 it is better.

    Appendix A.4 of Fassy et al. 2025 derives at least sqrt(2) for `epsilon` against the loose zCDP regime from advanced
    composition. With a few releases only the plain sum of epsilons is smaller than advanced composition, is used here,
    and may be better than zCDP.

    Attributes
    ----------
    regime : str
        What it is compared with.
    epsilon, epsilon_proven : float
        Factor in epsilon where the update's noise has the same variance, for what Mangold et al. publish and for what can
        be proven.
    noise, noise_proven : float
        Factor in the standard deviation of the update's noise for the same epsilon.
    """

    regime: str
    epsilon: float
    epsilon_proven: float
    noise: float
    noise_proven: float

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-able values."""
        return asdict(self)


def unequal_advanced_composition(epsilons: Sequence[tuple[float, int]], delta: float) -> float:
    """Return the epsilon at `delta` of adaptive pure releases, given each epsilon and how often it occurs.

    The smaller of the sum and sqrt(2 log(1/delta) sum e²) + sum e (exp(e) - 1).
    """
    delta = checks.delta("delta", delta)
    basic = math.fsum(count * epsilon for epsilon, count in epsilons)
    if delta == 0 or any(epsilon > 700 for epsilon, _ in epsilons):
        return basic
    squares = math.fsum(count * epsilon**2 for epsilon, count in epsilons)
    drift = math.fsum(count * epsilon * math.expm1(epsilon) for epsilon, count in epsilons)
    return min(basic, math.sqrt(2 * -math.log(delta) * squares) + drift)


def laplace_regime(name: str, selection_range: float, proven: bool, note: str) -> Regime:
    """Return Laplace noise with advanced composition, where a selection costs `selection_range` / scale."""

    def spend(selection: float, update: float, pairs: int, delta: float) -> float:
        return unequal_advanced_composition([(selection_range / selection, pairs), (1 / update, pairs)], delta)

    return Regime(name, "laplace", "laplace", spend, proven, note)


def gumbel_gaussian_regime(name: str, accountant: str, note: str) -> Regime:
    """Return the regime of Gumbel and Gaussian noise under one of the accountants that `epsilon_of` takes."""

    def spend(selection: float, update: float, pairs: int, delta: float) -> float:
        event = compose([(selection_event(1.0, selection), pairs), (gaussian_event(1.0, update), pairs)])
        return epsilon_of(event, delta, accountant)

    return Regime(name, "gumbel", "gaussian", spend, True, note)


def regimes() -> list[Regime]:
    """Return the regimes that are compared, from the most to the least noise in theory's order."""
    answer = [
        laplace_regime(
            PUBLISHED, 1.0, False, "Laplace for both, advanced composition; selection charged as if monotone"
        ),
        laplace_regime(PROVEN, 2.0, True, "Laplace for both, advanced composition; selection charged in full"),
        gumbel_gaussian_regime("zcdp-loose", "zcdp-loose", "Gumbel and Gaussian, zCDP, loose conversion (the paper)"),
        gumbel_gaussian_regime("zcdp", "zcdp", "Gumbel and Gaussian, zCDP, tight conversion"),
    ]
    if "tight" in ACCOUNTANTS:
        answer.append(gumbel_gaussian_regime("tight", "tight", "Gumbel and Gaussian, tight accountant"))
    return answer


def compare_regimes(
    epsilon: float, delta: float, pairs: int, compared: Sequence[Regime] | None = None
) -> list[RegimeRow]:
    """Return a row for each regime: the noise that (epsilon, delta) needs, and the epsilon for the same noise.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        In (0, 1).
    pairs : int
        How many selections, each followed by an update: K T for K updates in each of T rounds.
    compared : sequence of Regime, optional
        By default `regimes()`.
    """
    epsilon = checks.positive("epsilon", epsilon)
    delta = checks.delta("delta", delta, zero=False)
    pairs = checks.count("pairs", pairs)
    reference = gumbel_gaussian_regime(REFERENCE, REFERENCE, "")
    base = _scale(reference, epsilon, delta, pairs)
    return [_row(regime, epsilon, delta, pairs, base) for regime in (regimes() if compared is None else compared)]


def regime_factors(rows: Sequence[RegimeRow]) -> list[RegimeFactor]:
    """Return the factors between Mangold 2023 and every other regime among `rows`, which must hold both of its rows.

    Parameters
    ----------
    rows : sequence of RegimeRow
        Of `compare_regimes`.

    Raises
    ------
    InvalidParameter
        A row of Mangold 2023 is missing.
    """
    by_name = {row.regime: row for row in rows}
    for name in (PUBLISHED, PROVEN):
        if name not in by_name:
            raise InvalidParameter(f"rows must hold the regime {name!r}, got {sorted(by_name)}")
    published, proven = by_name.pop(PUBLISHED), by_name.pop(PROVEN)
    return [
        RegimeFactor(
            regime=row.regime,
            epsilon=published.epsilon_same_update_sd / row.epsilon_same_update_sd,
            epsilon_proven=proven.epsilon_same_update_sd / row.epsilon_same_update_sd,
            noise=published.update_sd / row.update_sd,
            noise_proven=proven.update_sd / row.update_sd,
        )
        for row in by_name.values()
    ]


def _scale(regime: Regime, epsilon: float, delta: float, pairs: int) -> float:
    return falling_root(lambda scale: regime.spend(scale, scale, pairs, delta), epsilon, 1.0)


def _row(regime: Regime, epsilon: float, delta: float, pairs: int, base: float) -> RegimeRow:
    scale = _scale(regime, epsilon, delta, pairs)
    selection_sd, update_sd = SD_OF_SCALE[regime.selection_noise], SD_OF_SCALE[regime.update_noise]
    update = base * SD_OF_SCALE["gaussian"] / update_sd
    selection = base * SD_OF_SCALE["gumbel"] / selection_sd
    return RegimeRow(
        regime=regime.name,
        selection_noise=regime.selection_noise,
        update_noise=regime.update_noise,
        scale=scale,
        selection_sd=scale * selection_sd,
        update_sd=scale * update_sd,
        epsilon=regime.spend(scale, scale, pairs, delta),
        epsilon_same_scale=regime.spend(base, base, pairs, delta),
        epsilon_same_update_sd=regime.spend(update, update, pairs, delta),
        epsilon_same_sd=regime.spend(selection, update, pairs, delta),
        proven=regime.proven,
        note=regime.note,
    )
