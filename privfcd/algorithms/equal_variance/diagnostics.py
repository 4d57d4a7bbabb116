"""Do the error variances look equal? A test on the moments that the search used."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve
from scipy.special import chdtrc

from privfcd.algorithms.equal_variance.law import Array, Law
from privfcd.algorithms.equal_variance.search import order_search
from privfcd.moments import Moments, NoiseTerm

KURTOSIS = 9.0
"""Learners allow for errors as peaked as exponential ones: Gaussian ones, with 3, are rejected more rarely then."""

LOUD = 0.06
"""Share of the common variance that the noise of a residual variance may have. Where it has more, parents are missed, and
what they leave in the residuals looks like unequal variances."""

_LEAST = 1e-100
"""Least common variance, as a share of the largest: its square is above 0, also where columns determine each other."""


@dataclass(frozen=True, eq=False)
class EqualVarianceTest:
    """Whether the residual variances of all variables can be one number.

    Attributes
    ----------
    statistic : float
        (v - c)' C^-1 (v - c) with v the residual variances, c the common one and C their covariance.
    degrees : int
        d - 1: the chi-square law of the statistic if errors are Gaussian, equal in variance, and the structure is right.
    p_value : float
    level : float
    common : float
        c, by generalised least squares.
    variances, sds : ndarray of shape (d,)
        v, and their standard deviations under equal variances: sampling and noise.
    loud : bool
        Whether the test abstains, because the noise is too loud to know the structure.
    """

    statistic: float
    degrees: int
    p_value: float
    level: float
    common: float
    variances: Array
    sds: Array
    loud: bool = False

    @property
    def equal(self) -> bool:
        """Whether equal variances are not rejected at the level; where the noise is loud they never are."""
        return self.loud or self.p_value >= self.level

    @property
    def warning(self) -> str | None:
        """What to do where they are rejected; None otherwise."""
        if self.equal:
            return None
        return (
            f"residual variances differ by more than sampling and noise explain (p = {self.p_value:.2g}, level "
            f"{self.level:g}; {self.variances.min():.3g} to {self.variances.max():.3g}): order search has no ground "
            "without equal error variances. Learn by GES or PC from the same Moments, which costs nothing more. Heavy "
            "tails, missing parents, or columns in units of their own can be the reason too."
        )


def equal_variance_test(law: Law, structure: Array, level: float = 0.01, kurtosis: float = 3.0) -> EqualVarianceTest:
    """Test equal error variances, given the weights of a structure.

    The residual variance of j is w'Sw for a contrast w, with bias (n - p_j) / n for p_j fitted parents, which is taken out.
    If the structure is right, residuals are uncorrelated, and sampling gives the variance 2 c² / (n - p_j) to each and
    no covariance; the noise gives Cov(w'Nw, u'Nu), whose form is known.

    Parameters
    ----------
    law : Law
    structure : ndarray of shape (d, d)
        Fitted weights, [i, j] that of i -> j.
    level : float
        In (0, 1).
    kurtosis : float
        Of the errors; 3 of Gaussian ones.
    """
    d = len(structure)
    contrasts = np.eye(d) - structure
    free = np.maximum(law.rows - np.count_nonzero(structure, axis=0), 1)
    variances = law.residual_variances(structure)[0] * law.rows / free
    noise = np.zeros((d, d))
    for spread in law.spreads:
        noise += 2 * (contrasts.T @ spread @ contrasts) ** 2
    if d == 1:
        sd = np.sqrt(2 * variances**2 / free + noise[0, 0])
        return EqualVarianceTest(0.0, 0, 1.0, level, float(variances[0]), variances, sd)
    unit = float(np.abs(variances).max()) or math.sqrt(float(noise.max())) or 1.0  # squares neither vanish nor overflow
    scaled, noise = variances / unit, noise / unit / unit
    common = max(float(np.median(scaled)), _LEAST)
    for _ in range(3):  # the sampling part of C hangs on c
        covariance = noise + np.diag((kurtosis - 1) * common**2 / free)
        ones = solve(covariance, np.ones(d), assume_a="pos")
        common = max(float(ones @ scaled / ones.sum()), _LEAST)
    apart = scaled - common
    covariance = noise + np.diag((kurtosis - 1) * common**2 / free)
    statistic = float(apart @ solve(covariance, apart, assume_a="pos"))
    sds = np.sqrt(np.diag(covariance)) * unit
    loud = bool(np.median(np.sqrt(np.diag(noise))) > LOUD * common)
    p_value = float(chdtrc(d - 1, statistic))
    return EqualVarianceTest(statistic, d - 1, p_value, level, common * unit, variances, sds, loud)


def variance_notes(moments: Moments, level: float = 0.01) -> list[str]:
    """Return in words whether the moments speak against equal error variances, which a learner takes for granted.

    The structure is that of an order search without refinements, whatever the learner found: penalties shrink its weights.
    Columns that were set aside, which have no relation to any other, are left out.
    """
    kept = np.flatnonzero((moments.matrix - np.diag(np.diag(moments.matrix))).any(axis=0))
    if len(kept) < 2:
        return []
    place = np.ix_(kept, kept)
    noise = () if moments.noise_sd is None else (NoiseTerm(moments.noise_sd[place]),)
    used = moments
    if len(kept) < len(moments.columns):
        names = tuple(moments.columns[k] for k in kept)
        used = Moments(moments.matrix[place].copy(), moments.rows, names, noise)
    found = order_search(used, local=False, polish=False)
    test = equal_variance_test(Law.of(used), found.structure, level, KURTOSIS)
    if test.loud:
        return ["This learner assumes equal error variances, which could not be tested: the noise is too loud here."]
    return [] if test.warning is None else [f"This learner assumes equal error variances, and the {test.warning}"]
