"""The other way to a private skeleton of discrete columns: votes that are noisy, not moments. For comparison.

Every party releases, layer by layer, the k edges that it would keep: the largest scores under Gumbel noise. An edge's score
is the least, over its conditioning sets, of

    T = 1/2 sum over strata and cells of |N_xyz - N_xz N_yz / N_z|,

less a public multiple of the square root of n that T has of itself where nothing depends. One record moves T by little:

Theorem. Adding a record with x0, y0 to a stratum of N records with shares p of x and q of y changes the differences
N_xy - N_x N_y / N by N / (N + 1) (1[x = x0] - p_x)(1[y = y0] - q_y), hence T by at most 1/2 * 2 * 2 = 2; a replaced record,
removed from one stratum and added to another, moves T by at most 4.

Proof. The new product of the margins over N + 1 is (N p + 1_x0)(N q + 1_y0)' / (N + 1); subtract. Both factors have l1 norm
at most 2.

A minimum over any number of sets moves no further than its members do: what a layer costs is its k selections, not its
thousands of tests, nor its removals, which are many more than the edges kept. G² would not do: a record moves it by up to
2 (1 + ln(n + 1)) and more, about as much as the whole threshold of a test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privfcd.accounting import REPLACE_ONE, NeighboringRelation, calibrate
from privfcd.algorithms.constraint.skeleton import layer_tests
from privfcd.data.contingency import ContingencyTables
from privfcd.data.private import PrivateTable
from privfcd.data.queries import Array, Kind, Norm
from privfcd.ledger import PlanPart
from privfcd.mechanisms import TopM

Indices = NDArray[np.int64]
Edges = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class DependenceScores:
    """Scores of the edges of a skeleton, one for each i < j, in order.

    Attributes
    ----------
    levels : tuple of int
        Declared.
    adjacent : ndarray of bool, shape (d, d)
        The skeleton.
    max_cond_vars : int
        Conditioning sets have up to so many variables.
    """

    levels: tuple[int, ...]
    adjacent: Edges
    max_cond_vars: int
    name: ClassVar[str] = "dependence of edges"
    norm: ClassVar[Norm] = "linf"
    kind: ClassVar[Kind] = "scores"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        for query in self._queries():
            query.check(d)

    def evaluate(self, rows: Array, n: int | None = None) -> Array:
        """See `Query.evaluate`."""
        public = len(rows) if n is None else n
        first, second = np.nonzero(np.triu(self.adjacent, 1))
        place = np.zeros(self.adjacent.shape, np.int64)
        place[first, second] = np.arange(len(first))
        answer = np.full(len(first), math.inf)
        for query in self._queries():
            edges = place[query.first, query.second]
            for places, counts in query.split(query.evaluate(rows)):
                _, strata, of_x, of_y = counts.shape
                own = math.sqrt(public * strata * (of_x - 1) * (of_y - 1) / (2 * math.pi))
                np.minimum.at(answer, edges[places], dependence(counts) - own)
        return answer

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`; with room for rounding."""
        return (4.0 if relation is REPLACE_ONE else 2.0) * (1 + 1e-9)

    def _queries(self) -> list[ContingencyTables]:
        tests = (layer_tests(self.adjacent, size) for size in range(self.max_cond_vars + 1))
        return [ContingencyTables(self.levels, *each) for each in tests if len(each[0])]


def dependence(counts: Array) -> Array:
    """Return T for counts of shape (m, strata, |X|, |Y|)."""
    of_x, of_y = counts.sum(axis=3), counts.sum(axis=2)
    of_z = of_x.sum(axis=2)
    expected = of_x[..., :, None] * of_y[..., None, :] / np.maximum(of_z, 1.0)[..., None, None]
    return np.asarray(np.abs(counts - expected).sum(axis=(1, 2, 3)) / 2)


def voted_skeleton(
    tables: Sequence[PrivateTable], levels: tuple[int, ...], kept: Sequence[int], epsilon: float, delta: float
) -> Edges:
    """Return the skeleton that noisy votes make: in layer l the kept[l] edges with most votes stay.

    Every party's whole budget is planned, and charged, before rows are read; every selection has the same noise.
    """
    d = len(levels)
    adjacent: Edges = ~np.eye(d, dtype=np.bool_)
    query = DependenceScores(levels, adjacent, 0)
    counts = np.minimum.accumulate([d * (d - 1) // 2, *kept])[
        1:
    ].tolist()  # a layer has the edges that the last one left
    unit = query.sensitivity(tables[0].n_rows, tables[0].relation)
    scale = calibrate(epsilon, delta, selections=sum(counts), sensitivity=unit).selection_scale
    assert scale is not None
    layers = [(f"layer {layer}", TopM(scale, count)) for layer, count in enumerate(counts)]
    plans = [[PlanPart(label, table.event(query, best), 1) for label, best in layers] for table in tables]
    for table, plan in zip(tables, plans, strict=True):
        table.ledger.check(plan, "votes", delta=delta)
    paid = [table.ledger.reserve(plan, "votes", delta=delta) for table, plan in zip(tables, plans, strict=True)]
    for layer, (label, best) in enumerate(layers):
        query = DependenceScores(levels, adjacent, layer)
        first, second = np.nonzero(np.triu(adjacent, 1))
        votes = np.zeros(len(first))
        for table, reservation in zip(tables, paid, strict=True):
            votes[table.release(query, best, label=label, reservation=reservation)] += 1
        chosen = np.argsort(-votes, kind="stable")[: best.m]
        adjacent = np.zeros((d, d), dtype=np.bool_)
        adjacent[first[chosen], second[chosen]] = adjacent[second[chosen], first[chosen]] = True
    for reservation in paid:
        reservation.close()
    return adjacent
