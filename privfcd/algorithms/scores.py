"""Scores of a graph that are sums over its nodes, and a memory for what was asked.

A family is a node and the mask of its parents (bit i for node i). A score answers many families at once, so that a party
behind a message answers all that one step of a search needs together; nothing is asked twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.algorithms.constraint.fisher_z import FisherZ
from privfcd.errors import BudgetExceeded
from privfcd.graphs.pdag import bits
from privfcd.moments import Moments
from privfcd.moments.dependence import in_use

Array = NDArray[np.float64]
Family = tuple[int, int]

_TINY = 1e-12
"""Residual variances are kept above this share of the variable's own."""


class AnswersUsedUp(BudgetExceeded):
    """A score has fewer answers left of those that were paid for than one step needs: a search ends with what it has."""


class LocalScore(Protocol):
    """A decomposable score of several parties, larger is better."""

    @property
    def d(self) -> int:
        """The number of nodes."""

    def local(self, families: Sequence[Family]) -> Array:
        """Return the score of each family at each party, shape (families, parties)."""

    def total(self, sums: Array) -> Array:
        """Return the value of graphs from the parties' sums over nodes, shape (..., parties) to (...)."""


@dataclass
class Remembered:
    """A score that asks each family once, and counts its questions.

    Attributes
    ----------
    score : LocalScore
        What answers.
    messages : int
        How often it was asked.
    families : int
        How many distinct families were asked for.
    """

    score: LocalScore
    messages: int = 0
    known: dict[Family, Array] = field(default_factory=dict, repr=False)

    @property
    def families(self) -> int:
        """How many distinct families were asked for."""
        return len(self.known)

    def prepare(self, families: Iterable[Family]) -> None:
        """Ask for all `families` that are not known, in one message."""
        missing = [family for family in dict.fromkeys(families) if family not in self.known]
        if missing:
            self.messages += 1
            self.known.update(zip(missing, self.score.local(missing), strict=True))

    def __getitem__(self, family: Family) -> Array:
        return self.known[family]


class GaussianBIC:
    """The Gaussian BIC: -n/2 (1 + log var(x | S)) - penalty ln(n)/2 (|S| + 1).

    Parameters
    ----------
    moments : Moments
        Centred, or of data whose means are 0. Noisy ones are repaired first.
    penalty : float
        Factor of the BIC's own penalty.

    Attributes
    ----------
    rows : float
        n; with noise the effective number, see `effective_rows`.
    """

    def __init__(self, moments: Moments, penalty: float = 1.0) -> None:
        self._matrix = moments.matrix if moments.exact else moments.repaired().matrix
        self._penalty = checks.positive("penalty", penalty)
        self.rows = effective_rows(moments)

    @property
    def d(self) -> int:
        """See `LocalScore.d`."""
        return len(self._matrix)

    def variances(self, families: Sequence[Family]) -> Array:
        """Return the residual variance of each family's node given its parents."""
        answer = np.empty(len(families))
        groups: dict[int, list[int]] = {}
        for index, (_, parents) in enumerate(families):
            groups.setdefault(parents.bit_count(), []).append(index)
        for size, places in groups.items():
            nodes = np.array([families[place][0] for place in places])
            own = self._matrix[nodes, nodes]
            if size == 0:
                answer[places] = own
                continue
            given = np.array([list(bits(families[place][1])) for place in places])
            inner = self._matrix[given[:, :, None], given[:, None, :]]
            cross = self._matrix[given, nodes[:, None]]
            scale = np.sqrt(np.maximum(inner[:, np.arange(size), np.arange(size)], np.finfo(float).tiny))
            scaled = inner / (scale[:, :, None] * scale[:, None, :]) + 1e-12 * np.eye(size)
            right = cross / scale
            solved = np.linalg.solve(scaled, right[:, :, None])[:, :, 0]
            answer[places] = own - (right * solved).sum(axis=1)
        floor = _TINY * np.diag(self._matrix)[[node for node, _ in families]]
        return np.maximum(answer, np.maximum(floor, np.finfo(float).tiny))

    def additions(self, node: int, parents: int) -> Array:
        """Return the score of `node` with `parents` and one more, for each variable; -inf where it cannot be one more.

        One solve for all of them: with S = cov(., .) given the parents, adding k leaves S_jj - S_jk^2 / S_kk.
        """
        scale = np.sqrt(np.maximum(np.diag(self._matrix), np.finfo(float).tiny))
        matrix = self._matrix / np.outer(scale, scale)
        given = list(bits(parents))
        row, own = matrix[node].copy(), np.diag(matrix).copy()
        if given:
            solved = np.linalg.solve(matrix[np.ix_(given, given)] + 1e-12 * np.eye(len(given)), matrix[given])
            row -= matrix[node, given] @ solved
            own -= np.einsum("ij,ij->j", matrix[given], solved)
        left = np.maximum(own, _TINY)
        variances = np.maximum(left[node] - row**2 / left, _TINY) * scale[node] ** 2
        sizes = len(given) + 2
        answer = -self.rows / 2 * (1 + np.log(variances)) - self._penalty * math.log(self.rows) / 2 * sizes
        answer[[node, *given]] = -math.inf
        return np.asarray(answer)

    def local(self, families: Sequence[Family]) -> Array:
        """See `LocalScore.local`; one column."""
        sizes = np.array([parents.bit_count() for _, parents in families])
        fit = -self.rows / 2 * (1 + np.log(self.variances(families)))
        return np.asarray(fit - self._penalty * math.log(self.rows) / 2 * (sizes + 1))[:, None]

    def total(self, sums: Array) -> Array:
        """See `LocalScore.total`."""
        return np.asarray(sums[..., 0])


def effective_rows(moments: Moments) -> float:
    """Return a number of exact rows that would tell pairs apart as well as `moments` do; n where they are exact.

    For each pair the effective rows of its correlation, alone and given all other variables, the smaller of the two;
    the median over pairs. A pair that cannot be tested counts as 2 rows.
    """
    if moments.exact:
        return float(moments.rows)
    test = FisherZ(moments)
    used = np.flatnonzero(in_use(moments))
    first, second = used[np.array(np.triu_indices(len(used), 1))]
    if not len(first):
        return float(moments.rows)
    others = np.array([used[(used != i) & (used != j)] for i, j in zip(first, second, strict=True)])
    alone = test.correlations(first, second, np.empty((len(first), 0), np.int64))[1]
    given = test.correlations(first, second, others)[1]
    smaller = np.nan_to_num(np.minimum(alone, given), nan=2.0)
    return max(2.0, float(np.median(smaller)))
