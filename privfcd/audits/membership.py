"""Membership from second moments: was this record among the rows that a matrix was computed from?

With known population moments P = E xx', the score of a record x is

    <P^-1 (S - P) P^-1, xx' - P>,

the slope of the Gaussian log-likelihood at P in the direction of S, up to a factor. For Gaussian rows whitened by P the
score of a row outside has mean 0 and, for large n, the normal law with variance 2 ‖P^-1/2 (S - P) P^-1/2‖², about
2 d (d + 1) / n; a row inside moves S by (xx' - P) / n and has mean E ‖..‖² / n = d (d + 1) / n. So

    AUC = Phi( sqrt(d (d + 1) / (4 n)) )

to first order: 0.56, 0.76 and 0.92 at d = 20, 100, 200 and n = 5000. Where P is itself estimated from m other rows the
variance grows by 1 + n / m, and noise in S adds its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import rankdata

from privfcd import checks
from privfcd.errors import InvalidParameter

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class MembershipReport:
    """What a membership test achieves.

    Attributes
    ----------
    auc : float
        Probability that a random member scores above a random outsider; 0.5 is chance.
    auc_sd : float
        Standard deviation of `auc` over draws of the tested records (Hanley and McNeil 1982).
    expected_auc : float
        What Gaussian rows and an exact matrix would give.
    members, outsiders : ndarray
        The scores.
    """

    auc: float
    auc_sd: float
    expected_auc: float
    members: Array
    outsiders: Array

    def roc(self, points: int = 201) -> tuple[Array, Array]:
        """Return false- and true-positive rates, each of shape (points,)."""
        levels = np.linspace(0, 1, points)
        thresholds = np.quantile(self.outsiders, 1 - levels)
        return levels, np.array([float(np.mean(self.members >= threshold)) for threshold in thresholds])


def membership_test(moments: Array, reference: Array, members: Array, outsiders: Array, rows: int) -> MembershipReport:
    """Score records inside and outside of the rows behind `moments`.

    Parameters
    ----------
    moments : ndarray of shape (d, d)
        S, as reconstructed.
    reference : ndarray of shape (d, d)
        P, the population's second moments, which the attacker knows: from public data, for instance. Positive definite.
    members, outsiders : ndarray of shape (m, d)
        Records to be told apart.
    rows : int
        n, how many rows are behind `moments`.

    Returns
    -------
    MembershipReport
        How well the scores tell members from outsiders.

    Raises
    ------
    InvalidParameter
        Shapes do not agree, or `reference` is not positive definite.
    """
    rows = checks.count("rows", rows)
    d = len(reference)
    if moments.shape != (d, d) or reference.shape != (d, d):
        raise InvalidParameter(
            f"moments and reference must be square and alike, got {moments.shape}, {reference.shape}"
        )
    for name, records in (("members", members), ("outsiders", outsiders)):
        if records.ndim != 2 or records.shape[1] != d or not len(records):
            raise InvalidParameter(f"{name} must be records of {d} columns, got shape {records.shape}")
    try:
        np.linalg.cholesky(reference)
    except np.linalg.LinAlgError as error:
        raise InvalidParameter("reference must be positive definite") from error
    half = np.linalg.solve(reference, moments - reference)
    slope = np.linalg.solve(reference, half.T)
    inside, outside = (np.einsum("ni,ij,nj->n", x, slope, x, optimize=True) for x in (members, outsiders))
    auc = _auc(inside, outside)
    return MembershipReport(
        auc=auc,
        auc_sd=_auc_sd(auc, len(inside), len(outside)),
        expected_auc=float(ndtr(math.sqrt(d * (d + 1) / (4 * rows)))),
        members=inside,
        outsiders=outside,
    )


def _auc(above: Array, below: Array) -> float:
    ranks = rankdata(np.concatenate([above, below]))
    wins = float(ranks[: len(above)].sum()) - len(above) * (len(above) + 1) / 2
    return wins / (len(above) * len(below))


def _auc_sd(auc: float, above: int, below: int) -> float:
    one, two = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    spread = auc * (1 - auc) + (above - 1) * (one - auc**2) + (below - 1) * (two - auc**2)
    return math.sqrt(max(spread, 0.0) / (above * below))
