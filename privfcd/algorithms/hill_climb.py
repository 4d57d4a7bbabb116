"""Hill climbing over DAGs within a skeleton: add, delete or reverse the arc that gains most, until none does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.scores import AnswersUsedUp, Family, LocalScore, Remembered
from privfcd.errors import InvalidParameter
from privfcd.graphs.pdag import bits

TOLERANCE = 1e-8
"""A step must gain more than this, so that equal scores are not told apart by rounding."""


@dataclass(frozen=True, eq=False)
class Climb:
    """Where the climb ended.

    Attributes
    ----------
    parents : tuple of int
        The DAG: masks of parents.
    score : float
        Its score.
    messages, families : int
        How often the score was asked, and for how many families.
    steps : int
        How many arcs were changed.
    used_up : AnswersUsedUp or None
        Why the climb ended early, where the score had too few answers left for a step.
    """

    parents: tuple[int, ...]
    score: float
    messages: int
    families: int
    steps: int
    used_up: AnswersUsedUp | None = None

    def matrix(self) -> NDArray[np.bool_]:
        """Return the DAG's matrix, [i, j] for i -> j."""
        d = len(self.parents)
        answer = np.zeros((d, d), dtype=np.bool_)
        for j, mask in enumerate(self.parents):
            answer[list(bits(mask)), j] = True
        return answer


def hill_climb(
    score: LocalScore | Remembered, adjacent: NDArray[np.bool_], start: Sequence[int] | None = None
) -> Climb:
    """Climb from the empty graph, or from the DAG whose masks of parents are `start`.

    Arcs are added and reversed on pairs of the skeleton `adjacent`, shape (d, d), symmetric. Among equal gains the first
    in the order (add, delete, reverse; i; j) is taken. A `Remembered` score keeps what it was asked before, and counts it.

    Raises
    ------
    AnswersUsedUp
        The score has too few answers left for the value of the start itself; later, the climb ends where it is.
    """
    scores = score if isinstance(score, Remembered) else Remembered(score)
    score = scores.score
    d = score.d
    if adjacent.shape != (d, d) or not np.array_equal(adjacent, adjacent.T) or adjacent.diagonal().any():
        raise InvalidParameter(f"adjacent must be symmetric, without diagonal, and of shape ({d}, {d})")
    allowed = [sum(1 << int(i) for i in np.flatnonzero(adjacent[:, j])) for j in range(d)]
    parents = [0] * d if start is None else list(start)
    scores.prepare(list(enumerate(parents)))
    steps = 0
    used_up = None
    while True:
        moves = _moves(parents, allowed)
        try:
            scores.prepare(family for families in moves for family in families)
        except AnswersUsedUp as error:
            used_up, moves = error, []
        best, chosen = TOLERANCE, None
        for families, gain in zip(moves, _gains(score, scores, parents, moves), strict=True):
            if gain > best + TOLERANCE or (chosen is None and gain > best):
                best, chosen = gain, families
        if chosen is None:
            total = score.total(np.sum([scores[family] for family in enumerate(parents)], axis=0))
            return Climb(tuple(parents), float(total), scores.messages, scores.families, steps, used_up)
        for node, mask in chosen:
            parents[node] = mask
        steps += 1


def _gains(score: LocalScore, scores: Remembered, parents: list[int], moves: list[tuple[Family, ...]]) -> list[float]:
    """Return what each change adds to the score."""
    if not moves:
        return []
    now = [scores[family] for family in enumerate(parents)]
    changes = []
    for first, *second in moves:
        change = scores[first] - now[first[0]]
        for family in second:
            change = change + (scores[family] - now[family[0]])
        changes.append(change)
    return [float(gain) for gain in score.total(np.stack(changes))]


def _moves(parents: list[int], allowed: list[int]) -> list[tuple[Family, ...]]:
    """Return every legal change as the families after it: additions, deletions, reversals, in order."""
    d = len(parents)
    below = _descendants(parents)
    adds: list[tuple[Family, ...]] = []
    deletes: list[tuple[Family, ...]] = []
    reversals: list[tuple[Family, ...]] = []
    for i in range(d):
        for j in bits(allowed[i]):
            if parents[j] >> i & 1:
                without = (j, parents[j] & ~(1 << i))
                deletes.append((without,))
                # i reaches j otherwise: turning the arc would close a cycle
                if not any(below[child] >> j & 1 for child in bits(_children(parents, i) & ~(1 << j))):
                    reversals.append((without, (i, parents[i] | 1 << j)))
            elif not parents[i] >> j & 1 and not below[j] >> i & 1:
                adds.append(((j, parents[j] | 1 << i),))
    return adds + deletes + reversals


def _children(parents: list[int], node: int) -> int:
    return sum(1 << j for j, mask in enumerate(parents) if mask >> node & 1)


def _descendants(parents: list[int]) -> list[int]:
    """Return for each node the mask of itself and all that it reaches."""
    d = len(parents)
    below = [1 << node for node in range(d)]
    children = [_children(parents, node) for node in range(d)]
    waiting = [mask.bit_count() for mask in children]
    ready = [node for node in range(d) if waiting[node] == 0]
    while ready:
        node = ready.pop()
        for parent in bits(parents[node]):
            below[parent] |= below[node]
            waiting[parent] -= 1
            if waiting[parent] == 0:
                ready.append(parent)
    return below
