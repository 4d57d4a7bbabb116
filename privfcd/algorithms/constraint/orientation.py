"""From a skeleton and its separating sets to a CPDAG: v-structures, then Meek's rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.constraint.skeleton import Skeleton
from privfcd.graphs.cpdag import dag_to_cpdag
from privfcd.graphs.meek import meek_closure
from privfcd.graphs.orders import consistent_extension
from privfcd.graphs.pdag import Pdag, topological_order


@dataclass(frozen=True)
class Orientation:
    """What the v-structures of a skeleton come to.

    Attributes
    ----------
    graph : Pdag
        The CPDAG where `valid`; otherwise the arrows that were kept, closed under Meek's rules.
    left_out : int
        V-structures that contradict stronger ones.
    valid : bool
        Whether some DAG has exactly this skeleton and these v-structures. Samples can make it impossible.
    """

    graph: Pdag
    left_out: int
    valid: bool


def oriented(skeleton: Skeleton) -> Orientation:
    """Orient a skeleton: i -> k <- j where i and j are not adjacent and k is not in the set that separates them.

    Pairs with larger p-values come first, equal ones in the order of the variables. A v-structure that is against an arrow
    that was kept before, or closes a directed cycle, is left out. Then Meek's rules 1 to 3.
    """
    return with_v_structures(
        skeleton.adjacent,
        (
            (skeleton.p_values.get((i, j), 0.0), i, j, k)
            for i, j, k in unshielded_triples(skeleton.adjacent)
            if k not in skeleton.separators.get((i, j), ())
        ),
    )


def unshielded_triples(adjacent: NDArray[np.bool_]) -> list[tuple[int, int, int]]:
    """Return the triples (i, j, k), i < j, in rising order, where k is adjacent to i and j, and these are not adjacent."""
    return [
        (i, j, k)
        for i, j in np.argwhere(np.triu(~adjacent, 1)).tolist()
        for k in np.flatnonzero(adjacent[i] & adjacent[j]).tolist()
    ]


def with_v_structures(adjacent: NDArray[np.bool_], wanted: Iterable[tuple[float, int, int, int]]) -> Orientation:
    """Orient a skeleton by its v-structures, the strongest first, and Meek's rules 1 to 3.

    Parameters
    ----------
    adjacent : ndarray of bool, shape (d, d)
        Symmetric.
    wanted : iterable of (strength, i, j, k)
        V-structures i -> k <- j on unshielded triples. One that is against an arrow that was kept before, or closes a
        directed cycle, is left out; of equal strength the first in the order of the variables is kept.
    """
    columns = list(Pdag.from_matrix(adjacent).entries())
    left_out = 0
    for _, i, j, k in sorted((-strength, i, j, k) for strength, i, j, k in wanted):
        more = columns.copy()
        for end in (i, j):
            more[end] &= ~(1 << k)
        fits = columns[k] >> i & columns[k] >> j & 1
        if fits and topological_order(Pdag.from_entries(more)) is not None:
            columns = more
        else:
            left_out += 1
    closed = meek_closure(Pdag.from_entries(columns))
    dag = consistent_extension(closed)
    return Orientation(closed if dag is None else dag_to_cpdag(dag), left_out, dag is not None)
