"""What parties vote on, and how votes are counted: edges with masks, arcs that end in a DAG, and v-structures.

Codes of a party's vote on an edge: 1 keeps it, 0 removes it, -1 cannot say. A vote on a v-structure is a whole number from
-100 (surely none) to 100 (surely one): whole, so that the sum does not depend on the order of the parties.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.constraint.orientation import Orientation, unshielded_triples, with_v_structures

Votes = NDArray[np.int8]
TripleVotes = NDArray[np.int8]

KEEP, REMOVE, MASKED = 1, 0, -1
MOST_SURE = 100


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


def counted(before: NDArray[np.bool_], votes: Sequence[Votes], *, masked_stay: bool) -> NDArray[np.bool_]:
    """Return the edges of `before` that stay: votes for it at least those against it, masks aside.

    Parameters
    ----------
    before : ndarray of bool, shape (d, d)
    votes : sequence of ndarray of int8, shape (d, d)
        One for each party.
    masked_stay : bool
        Whether an edge stays that all parties mask, as in the paper. A mask leaves the answer to parties that are surer.
        Where all leave it to each other, nobody found dependence: two parties, each of which masks two of three removals,
        mask the same edge in four of nine cases by chance alone.
    """
    stacked = np.stack(votes)
    kept, removed = (stacked == KEEP).sum(axis=0), (stacked == REMOVE).sum(axis=0)
    return np.asarray(before & (kept >= removed) & (masked_stay | (kept > 0)))


def v_structure_votes(
    adjacent: NDArray[np.bool_],
    arcs: NDArray[np.bool_],
    separators: Mapping[tuple[int, int], tuple[int, ...]],
    shares: Mapping[tuple[int, int], tuple[int, NDArray[np.int64]]],
) -> TripleVotes:
    """Return a party's vote on each of `unshielded_triples(adjacent)`: the mean of three answers, times 100.

    Each answer is 1 for a v-structure i -> k <- j, -1 for none, and 0 where it is not known. No answer tells apart the DAGs
    of an equivalence class.

    Parameters
    ----------
    adjacent : ndarray of bool, shape (d, d)
        The common edges.
    arcs : ndarray of bool, shape (d, d)
        The party's DAG, which its score likes best: whether it has both arrows into k, and nothing between i and j.
    separators : mapping
        For pairs (i, j) that the party once found independent the set with the largest p-value: whether k is not in it.
    shares : mapping
        For pairs (i, j) of how many sets each was found independent given, and how many of these hold each variable: 1 less
        twice the share that holds k (Colombo and Maathuis 2014, the majority rule, with its margin).
    """
    joined = arcs | arcs.T
    votes = []
    for i, j, k in unshielded_triples(adjacent):
        known = joined[i, k] and joined[j, k] and not joined[i, j]
        by_score = (1 if arcs[i, k] and arcs[j, k] else -1) if known else 0
        by_set = (-1 if k in separators[i, j] else 1) if (i, j) in separators else 0
        many, holding = shares.get((i, j), (0, None))
        by_share = 1 - 2 * int(holding[k]) / many if holding is not None and many else 0.0
        votes.append(round(MOST_SURE * (by_score + by_set + by_share) / 3))
    return np.array(votes, dtype=np.int8)


def counted_triples(adjacent: NDArray[np.bool_], votes: Sequence[TripleVotes]) -> Orientation:
    """Return the common edges with the v-structures for which the votes are above 0 in sum, and what follows from them."""
    triples = unshielded_triples(adjacent)
    sums = np.stack(votes).sum(axis=0, dtype=np.int64).tolist() if triples else []
    chosen = [(float(total), *triple) for total, triple in zip(sums, triples, strict=True) if total > 0]
    return with_v_structures(adjacent, chosen)


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
