"""Do two sources share their noise? The same seed at two parties, or for two releases, gives the same residuals.

If the residuals of two releases are independent and one of them is Gaussian with equal variances, Pearson's t of their
correlation has Student's law, whatever the other's law is. Equal noise has correlation 1, opposite noise -1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from privfcd import checks
from privfcd.errors import InvalidParameter

_LEAST_DRAWS = 5


@dataclass(frozen=True)
class IndependenceReport:
    """The correlation of two sources' residuals.

    Attributes
    ----------
    draws : int
    correlation : float
    p_value : float
        Of a correlation this far from 0 between independent residuals.
    level : float
    """

    draws: int
    correlation: float
    p_value: float
    level: float

    @property
    def independent(self) -> bool:
        """Whether no dependence was found at the level; small ones, or ones without correlation, may be there."""
        return self.p_value >= self.level

    def __str__(self) -> str:
        found = "no dependence found" if self.independent else "SHARED NOISE"
        return f"{found}: correlation {self.correlation:.4g} over {self.draws} draws, p = {self.p_value:.3g}"


def check_independence(first: ArrayLike, second: ArrayLike, level: float = 1e-6) -> IndependenceReport:
    """Test whether residuals of two parties or releases are correlated.

    Parameters
    ----------
    first, second : array of shape (draws,)
        Released minus exact values, at least 5 of each; Gaussian in at least one of them.
    level : float
        Probability of an alarm about independent noise, in (0, 1).

    Returns
    -------
    IndependenceReport
        The correlation that was found, and whether noise that is independent would show it.

    Raises
    ------
    InvalidParameter
        The residuals are not of one shape, too few, or `level` is out of range.
    """
    level = checks.fraction("level", level)
    one, two = (np.asarray(values, dtype=float).ravel() for values in (first, second))
    if len(one) != len(two) or len(one) < _LEAST_DRAWS or not (np.isfinite(one).all() and np.isfinite(two).all()):
        raise InvalidParameter(
            f"first and second must be at least {_LEAST_DRAWS} finite residuals each, and as many, got {len(one)} and "
            f"{len(two)}"
        )
    found = stats.pearsonr(one, two)
    return IndependenceReport(len(one), float(found.statistic), float(found.pvalue), level)
