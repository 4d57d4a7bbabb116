"""What noise a run's weights have, from public numbers and released ones, and which weights stand out from it.

Every party says before it is charged how much noise its plan puts on one gradient entry, in units of the entry's clip: a
public number, as its plan is. With the clips, which follow from released second moments, the coordinator so knows the
noise's standard deviations; what it does with them is post-processing.

A weight that is learnt privately stays only if it is beyond the threshold and stands out from its noise. Let p be the chance
that Gaussian noise of the stated standard deviation alone would be larger than the weight.

- Weights of the refit: the largest k for which the k-th smallest of K values p is at most LEVEL k / K; the k weights stay
  (Benjamini and Hochberg 1995). The refit's noise is the planned one, carried through the last step, and fresh, so that
  what the descent chose does not favour it. Where the steps settled, the expected share of weights without an effect
  among those that stay is at most LEVEL for independent noise, as that of different effects is. That of one effect's
  weights is correlated, for which it is not proven.
- Weights of the descent, where there was no refit: p at most LEVEL / (d (d - 1)), for all ordered pairs (Bonferroni).

A column whose released second moment is not beyond its own noise has no known scale: steps are too long or too short by an
unknown factor, and so is the noise of weights from and into it. None of them stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from privfcd.algorithms.fed_sparse import messages
from privfcd.algorithms.fed_sparse.constants import REFIT_CLIP, lifted
from privfcd.algorithms.fed_sparse.settings import Settings
from privfcd.algorithms.scale_notes import NOISE_SDS
from privfcd.errors import PartyFailed

Array = NDArray[np.float64]

LEVEL = 0.05
"""See above: what noise may make of a run's edges."""


@dataclass(frozen=True, eq=False)
class RunNoise:
    """Standard deviations of the noise of a run.

    Attributes
    ----------
    update : ndarray of shape (d,)
        Of the mean of the parties' weights of i -> j when each has just updated it: one number for each cause i. Later
        updates replace the noise of earlier ones, but the rounds carry some of it on, so that it is a scale and no law.
    refit : float
        Of an entry (i, j) of the refit's averaged gradient on a support of one entry, in units of sqrt(M_i); on one of
        E entries it is sqrt(E) times as much.
    unknown : ndarray of bool, shape (d,)
        Columns whose released second moments are not beyond `NOISE_SDS` standard deviations of their noise.
    refit_parts : ndarray of shape (parties,)
        As `refit`, of each party's own gradient.
    """

    update: Array
    refit: float
    unknown: NDArray[np.bool_]
    refit_parts: Array = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def none(cls, d: int) -> RunNoise:
        """Return that of exact answers."""
        return cls(np.zeros(d), 0.0, np.zeros(d, dtype=bool))

    def descent_limits(self, threshold: float) -> Array:
        """Return the sizes beyond which weights of the descent stay, shape (d, d)."""
        d = len(self.update)
        spread = np.repeat(self.update[:, None], d, axis=1)
        return self._without_unknown(limits(threshold, spread, LEVEL / (d * (d - 1))))

    def refit_limits(self, threshold: float, weights: Array, noise_sd: Array) -> Array:
        """Return the sizes beyond which weights of the refit stay, shape (d, d); noise is 0 off its support."""
        places = np.nonzero(noise_sd)
        chances = np.sort(2 * ndtr(-np.abs(weights[places]) / noise_sd[places]))
        allowed = LEVEL * np.arange(1, len(chances) + 1) / max(len(chances), 1)
        staying = np.flatnonzero(chances <= allowed)
        chance = allowed[staying[-1] if len(staying) else 0] if len(chances) else LEVEL
        return self._without_unknown(limits(threshold, noise_sd, float(chance)))

    def _without_unknown(self, sizes: Array) -> Array:
        sizes[self.unknown] = np.inf
        sizes[:, self.unknown] = np.inf
        return sizes


def run_noise(
    quotes: Sequence[messages.Quote], settings: Settings, moments: Array, moments_sd: Array | None, clip: float
) -> RunNoise:
    """Return the noise of a private run.

    Parameters
    ----------
    quotes : sequence of Quote
        The parties'.
    settings : Settings
    moments : ndarray of shape (d,)
        Second moments of the columns, released or declared.
    moments_sd : ndarray of shape (d,) or None
        Standard deviations of the noise in them; None where they were declared.
    clip : float
        C.

    Raises
    ------
    PartyFailed
        A party's noise is no number of at least 0.
    """
    said = np.array([(quote.update_noise, quote.refit_noise) for quote in quotes], dtype=np.float64)
    if not np.isfinite(said).all() or (said < 0).any():
        raise PartyFailed("a party did not say how much noise its answers have")
    smoothness = settings.loss.curvature * lifted(moments) + settings.rho2
    unit = clip / math.sqrt(len(moments) * float(smoothness.sum()))  # C_i is this times sqrt(M_i)
    rows = np.array([quote.n_rows for quote in quotes], dtype=np.float64)
    together = float(np.linalg.norm(said[:, 0])) / len(quotes)
    kept = settings.step / (2 - settings.step)  # share of an update's variance that repeated updates come to
    parts = unit * REFIT_CLIP * said[:, 1]
    return RunNoise(
        unit * together * math.sqrt(kept) / np.sqrt(smoothness),
        float(np.linalg.norm(rows / rows.sum() * parts)),
        np.zeros(len(moments), dtype=bool) if moments_sd is None else moments <= NOISE_SDS * moments_sd,
        parts,
    )


def limits(threshold: float, noise_sd: Array, chance: float) -> Array:
    """Return the sizes that noise alone passes with this chance, and at least the threshold, for each weight."""
    return np.maximum(threshold, float(ndtri(1 - chance / 2)) * noise_sd)


def noise_notes(noise: RunNoise, columns: Sequence[str], lost: int, skipped: bool) -> list[str]:
    """Return in words what noise took from the result.

    Parameters
    ----------
    noise : RunNoise
    columns : sequence of d str
    lost : int
        How many weights above the threshold were dropped because they do not stand out from the noise.
    skipped : bool
        Whether the final refit was left out.
    """
    notes = []
    if noise.unknown.any():
        names = ", ".join(repr(name) for name, unknown in zip(columns, noise.unknown, strict=True) if unknown)
        notes.append(
            f"The budget is too small to tell the scale of {names}: the noise in their released second moments is as large "
            "as these. No edge from or into them is stated."
        )
    if skipped:
        notes.append(
            "The final refit of the weights was left out or not used: its noise is larger than the threshold. The weights "
            "are those of the last round, which the l1 penalty draws towards 0."
        )
    if lost:
        notes.append(
            f"{lost} weight{'s' if lost > 1 else ''} above the threshold {'were' if lost > 1 else 'was'} dropped, because "
            "the noise may have made them. More rows or a larger budget would tell."
        )
    return notes
