"""The law of the noise in a symmetric matrix of moments, carried through linear maps.

A term is N = L E L' with E symmetric, its entries on and above the diagonal independent and Gaussian with mean 0. For a
symmetric M the form <N, M> = <E, L'ML> is Gaussian too, so that every linear form of the moments has a known variance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privfcd.errors import InvalidParameter

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NoiseTerm:
    """Symmetric Gaussian noise L E L'.

    Attributes
    ----------
    sd : float or ndarray of shape (d, d)
        A number s: the analytic Gaussian mechanism's law, E_ii with standard deviation s and E_ij with s / sqrt(2). A
        symmetric matrix: the standard deviation of each entry of E.
    carry : ndarray of shape (d, d), optional
        L; the identity by default.
    """

    sd: float | Array
    carry: Array | None = None

    def __post_init__(self) -> None:
        sd = np.asarray(self.sd, dtype=np.float64)
        if sd.ndim not in (0, 2) or not np.isfinite(sd).all() or (sd < 0).any() or not np.array_equal(sd, sd.T):
            raise InvalidParameter("sd must be finite, at least 0, and one number or a symmetric matrix")
        if self.carry is not None and not np.isfinite(self.carry).all():
            raise InvalidParameter("carry must be finite")

    @property
    def isotropic(self) -> bool:
        """Whether E has the analytic Gaussian mechanism's law."""
        return np.ndim(self.sd) == 0

    @property
    def present(self) -> bool:
        """Whether there is any noise."""
        return bool(np.any(self.sd)) and (self.carry is None or bool(np.any(self.carry)))

    def check(self, d: int) -> None:
        """Raise InvalidParameter unless the term fits a (d, d) matrix."""
        for name, value in (("noise sd", self.sd), ("noise carry", self.carry)):
            if value is not None and np.ndim(value) and np.shape(value) != (d, d):
                raise InvalidParameter(f"{name} must have shape ({d}, {d}), got {np.shape(value)}")

    def scaled(self, factor: float) -> NoiseTerm:
        """Return the law of `factor` times the noise, factor >= 0."""
        return replace(self, sd=self.sd * factor)

    def carried(self, linear: Array) -> NoiseTerm:
        """Return the law of linear N linear'."""
        return replace(self, carry=linear if self.carry is None else linear @ self.carry)

    def spread(self, d: int) -> Array:
        """Return Q = L L', shape (d, d)."""
        return np.eye(d) if self.carry is None else np.asarray(self.carry @ self.carry.T)

    def pair_variances(self, left: Array, right: Array) -> Array:
        """Return Var(u' N v) for each column u of `left` and the same column v of `right`, both of shape (d, m)."""
        a = left if self.carry is None else self.carry.T @ left
        b = right if self.carry is None else self.carry.T @ right
        if np.ndim(self.sd) == 0:
            both = (a * b).sum(axis=0)
            return np.asarray(self.sd**2 / 2 * ((a * a).sum(axis=0) * (b * b).sum(axis=0) + both**2))
        variances = np.asarray(self.sd) ** 2
        off, product = variances - np.diag(np.diag(variances)), a * b
        return np.asarray(
            (a * a * (off @ (b * b))).sum(axis=0)
            + (product * (off @ product)).sum(axis=0)
            + np.diag(variances) @ product**2
        )

    def form_variance(self, form: Array) -> float:
        """Return Var <N, M> for a symmetric M, shape (d, d)."""
        inner = form if self.carry is None else self.carry.T @ form @ self.carry
        if np.ndim(self.sd) == 0:
            return float(self.sd**2 * (inner * inner).sum())
        variances = np.asarray(self.sd) ** 2
        off = variances - np.diag(np.diag(variances))
        return float(2 * (off * inner * inner).sum() + np.diag(variances) @ np.diag(inner) ** 2)

    def sample(self, generator: np.random.Generator, d: int) -> Array:
        """Return one draw of N, symmetric, shape (d, d), in double precision: for simulation, not for protection."""
        sds = np.asarray(self.sd, dtype=np.float64)
        if sds.ndim == 0:
            sds = np.full((d, d), float(sds) / math.sqrt(2))
            np.fill_diagonal(sds, float(self.sd))
        upper = np.triu(generator.standard_normal((d, d)) * sds)
        inner = upper + np.triu(upper, 1).T
        if self.carry is None:
            return inner
        drawn = self.carry @ inner @ self.carry.T
        return np.asarray((drawn + drawn.T) / 2)

    def entry_variances(self, d: int) -> Array:
        """Return the variance of every entry of N, shape (d, d)."""
        if np.ndim(self.sd) == 0:
            q = self.spread(d)
            return np.asarray(self.sd**2 / 2 * (np.outer(np.diag(q), np.diag(q)) + q * q))
        if self.carry is None:
            return np.asarray(self.sd) ** 2
        rows, columns = np.triu_indices(d)
        identity = np.eye(d)
        answer = np.empty((d, d))
        answer[rows, columns] = self.pair_variances(identity[:, rows], identity[:, columns])
        answer[columns, rows] = answer[rows, columns]
        return answer


def merged(terms: Sequence[NoiseTerm]) -> tuple[NoiseTerm, ...]:
    """Return the same law with independent terms of one carry as one term."""
    groups: list[list[NoiseTerm]] = []
    for term in terms:
        for group in groups:
            if term.isotropic == group[0].isotropic and _same(term.carry, group[0].carry):
                group.append(term)
                break
        else:
            groups.append([term])
    return tuple(_sum(group) for group in groups)


def _same(one: Array | None, other: Array | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


def _sum(group: list[NoiseTerm]) -> NoiseTerm:
    if len(group) == 1:
        return group[0]
    if group[0].isotropic:
        return replace(group[0], sd=math.hypot(*(float(term.sd) for term in group)))
    return replace(group[0], sd=np.sqrt(sum(np.asarray(term.sd) ** 2 for term in group)))
