"""Do the error variances look equal? A test on the moments that the search used."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve
from scipy.special import chdtrc

from privfcd.algorithms.equal_variance.law import Array, Law

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
    """

    statistic: float
    degrees: int
    p_value: float
    level: float
    common: float
    variances: Array
    sds: Array

    @property
    def equal(self) -> bool:
        """Whether equal variances are not rejected at the level."""
        return self.p_value >= self.level

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


def equal_variance_test(law: Law, structure: Array, level: float = 0.01) -> EqualVarianceTest:
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
        covariance = noise + np.diag(2 * common**2 / free)
        ones = solve(covariance, np.ones(d), assume_a="pos")
        common = max(float(ones @ scaled / ones.sum()), _LEAST)
    apart = scaled - common
    covariance = noise + np.diag(2 * common**2 / free)
    statistic = float(apart @ solve(covariance, apart, assume_a="pos"))
    sds = np.sqrt(np.diag(covariance)) * unit
    return EqualVarianceTest(statistic, d - 1, float(chdtrc(d - 1, statistic)), level, common * unit, variances, sds)
