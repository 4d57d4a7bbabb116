"""What parties vote on, and how votes are counted: edges with masks, and directions that end in a DAG.

Codes of a party's vote on an edge: 1 keeps it, 0 removes it, -1 cannot say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Votes = NDArray[np.int8]

KEEP, REMOVE, MASKED = 1, 0, -1


def edge_votes(
    before: NDArray[np.bool_], after: NDArray[np.bool_], p_values: dict[tuple[int, int], float], mask_rate: float
) -> Votes:
    """Return a party's votes on the edges of `before`, shape (d, d), 0 where there is no edge to vote on.

    Of the t edges that it removed the ceil(mask_rate t) with the smallest p-values, equal ones in the order of the
    variables, are masked.
    """
    votes = np.where(before & after, KEEP, REMOVE).astype(np.int8)
    removed = [(i, j) for i, j in zip(*np.nonzero(np.triu(before & ~after, 1)), strict=True)]
    ordered = sorted(((p_values[int(i), int(j)], int(i), int(j)) for i, j in removed))
    for _, i, j in ordered[: masked_count(len(ordered), mask_rate)]:
        votes[i, j] = votes[j, i] = MASKED
    return votes


def masked_count(removed: int, mask_rate: float) -> int:
    """Return ceil(mask_rate removed); a product that is whole but for rounding counts as whole."""
    return min(removed, math.ceil(mask_rate * removed - 1e-9))


def counted(before: NDArray[np.bool_], votes: Sequence[Votes]) -> NDArray[np.bool_]:
    """Return the edges of `before` that stay: votes for it at least those against it, masks aside."""
    stacked = np.stack(votes)
    return np.asarray(before & ((stacked == KEEP).sum(axis=0) >= (stacked == REMOVE).sum(axis=0)))


@dataclass(frozen=True, eq=False)
class CountedArcs:
    """The DAG that directed votes make.

    Attributes
    ----------
    matrix : ndarray of bool, shape (d, d)
        Acyclic.
    support : ndarray of int, shape (d, d)
        How many parties have i -> j.
    ties : int
        Edges with equally many votes each way.
    turned : list of (int, int)
        Arcs i -> j that the majority wanted and that were turned, because they closed a cycle of stronger ones.
    short : int
        Edges with fewer votes than the quorum.
    """

    matrix: NDArray[np.bool_]
    support: NDArray[np.int64]
    ties: int
    turned: list[tuple[int, int]]
    short: int


def counted_arcs(graphs: Sequence[NDArray[np.bool_]], quorum: float) -> CountedArcs:
    """Return the DAG of the parties' directed votes.

    An edge enters if at least quorum * parties, and at least one, have it in some direction; i -> j if more parties say so
    than j -> i, and on a tie from the earlier to the later variable. Arcs are inserted by falling margin, then by
    falling votes, then in the order of the variables; one that would close a cycle is turned, which never closes one:
    there is a path the other way already.
    """
    support = np.stack(graphs).sum(axis=0, dtype=np.int64)
    d = len(support)
    needed = max(1.0, quorum * len(graphs) - 1e-9)
    arcs, ties, short = [], 0, 0
    for i in range(d):
        for j in range(i + 1, d):
            forward, back = int(support[i, j]), int(support[j, i])
            if not forward + back:
                continue
            if forward + back < needed:
                short += 1
                continue
            ties += forward == back
            tail, head = (i, j) if forward >= back else (j, i)
            arcs.append((-abs(forward - back), -(forward + back), tail, head))
    matrix = np.zeros((d, d), dtype=np.bool_)
    reach = np.eye(d, dtype=np.bool_)
    turned = []
    for _, _, tail, head in sorted(arcs):
        if reach[head, tail]:
            turned.append((tail, head))
            tail, head = head, tail
        matrix[tail, head] = True
        reach |= np.outer(reach[:, tail], reach[head])
    return CountedArcs(matrix, support, ties, turned, short)
