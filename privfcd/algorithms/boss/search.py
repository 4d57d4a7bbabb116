"""Best order score search (Andrews, Ramsey, Sanchez-Romero, Camchong and Kummerfeld 2023): orders, and parents for each.

An order's score is the sum over its variables of the score that grow and shrink finds among the variables before it. A move
takes one variable out of the order and puts it back where the order's score is largest. Moves go on, variable by variable,
until none gains.

Grow and shrink depends on the variables before only through the first that it meets, so its steps are kept in a tree for
each variable (a grow-shrink tree): a node is a set of parents in the order in which they were added, and knows all
additions that gain, the best first. Looking up the parents within a prefix walks down the tree: at each node the first
addition that is in the prefix is taken. What was found for one prefix serves all that lead to the same node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from privfcd import checks
from privfcd.algorithms.scores import GaussianBIC
from privfcd.graphs.cpdag import dag_to_cpdag
from privfcd.graphs.pdag import Pdag, bits

TOLERANCE = 1e-8
"""An addition, removal or move must gain more than this, so that rounding decides nothing."""


@dataclass(frozen=True, eq=False)
class OrderResult:
    """Where a search ended.

    Attributes
    ----------
    cpdag : Pdag
        The class of the best order's DAG.
    order : tuple of int
        The best order.
    parents : tuple of int
        Its DAG: masks of parents.
    score : float
        Its score.
    moves : int
        How many variables were moved, over all starts.
    """

    cpdag: Pdag
    order: tuple[int, ...]
    parents: tuple[int, ...]
    score: float
    moves: int


@dataclass(slots=True)
class _Node:
    """A set of parents that grew in this order: its score, the additions that gain, and what is left after shrinking."""

    parents: int
    score: float
    gains: list[int] | None = None
    grown: dict[int, _Node] = field(default_factory=dict)
    shrunk: tuple[float, int] | None = None


class _Tree:
    """Grow and shrink for one variable, remembered."""

    def __init__(self, score: GaussianBIC, node: int, most: int | None) -> None:
        self._score, self._node, self._most = score, node, most
        self._root = _Node(0, float(score.local([(node, 0)])[0, 0]))
        self._found: dict[int, tuple[float, int]] = {}

    def best(self, before: int) -> tuple[float, int]:
        """Return the score and the parents that grow and shrink finds within a mask of variables."""
        known = self._found.get(before)
        if known is not None:
            return known
        here = self._root
        while True:
            if here.gains is None:
                here.gains = self._additions(here)
            for other in here.gains:
                if before >> other & 1:
                    break
            else:
                break
            here = here.grown[other]
        if here.shrunk is None:
            here.shrunk = self._shrink(here)
        self._found[before] = here.shrunk
        return here.shrunk

    def _additions(self, here: _Node) -> list[int]:
        if self._most is not None and here.parents.bit_count() >= self._most:
            return []
        scores = self._score.additions(self._node, here.parents)
        order = np.argsort(-scores, kind="stable")
        gains = [int(k) for k in order[: np.count_nonzero(scores > here.score + TOLERANCE)]]
        here.grown = {k: _Node(here.parents | 1 << k, float(scores[k])) for k in gains}
        return gains

    def _shrink(self, here: _Node) -> tuple[float, int]:
        parents, score = here.parents, here.score
        while parents:
            fewer = [parents & ~(1 << k) for k in bits(parents)]
            scores = self._score.local([(self._node, mask) for mask in fewer])[:, 0]
            at = int(np.argmax(scores))
            if scores[at] <= score - TOLERANCE:
                break
            parents, score = fewer[at], float(scores[at])
        return score, parents


def best_order_search(
    score: GaussianBIC, *, starts: int = 3, max_parents: int | None = None, seed: int = 0
) -> OrderResult:
    """Return the best order that insert moves find from several starts, and the class of its DAG.

    Parameters
    ----------
    score : GaussianBIC
        Of moments, exact or noisy.
    starts : int
        How many orders to begin with: the columns' own, then random ones.
    max_parents : int, optional
        Largest number of parents.
    seed : int
        Of the random orders; the same seed gives the same result.

    Raises
    ------
    InvalidParameter
        A number is outside what is accepted.
    """
    checks.count("starts", starts)
    d = score.d
    trees = [_Tree(score, node, max_parents) for node in range(d)]
    random = np.random.default_rng(checks.count("seed", seed, least=0))
    best: tuple[float, list[int]] | None = None
    moves = 0
    for start in range(starts):
        order = list(range(d)) if start == 0 else random.permutation(d).tolist()
        found, order, moved = _climb(trees, order)
        moves += moved
        if best is None or found > best[0] + TOLERANCE:
            best = found, order
    assert best is not None
    total, order = best
    parents = [0] * d
    before = 0
    for node in order:
        parents[node] = trees[node].best(before)[1]
        before |= 1 << node
    return OrderResult(dag_to_cpdag(_dag(parents)), tuple(order), tuple(parents), total, moves)


def _climb(trees: Sequence[_Tree], order: list[int]) -> tuple[float, list[int], int]:
    """Move variables until no move gains; return the score, the order and how many moves there were."""
    total, moves = _total(trees, order), 0
    while True:
        gained = False
        for node in list(order):
            place = order.index(node)
            rest = order[:place] + order[place + 1 :]
            found, at = _best_place(trees, rest, node)
            if found > total + TOLERANCE:
                order = [*rest[:at], node, *rest[at:]]
                total, gained, moves = found, True, moves + 1
        if not gained:
            return total, order, moves


def _best_place(trees: Sequence[_Tree], rest: Sequence[int], node: int) -> tuple[float, int]:
    """Return the largest score of `rest` with `node` put somewhere, and where."""
    own, bit, before = trees[node], 1 << node, 0
    here, ahead, behind = [own.best(0)[0]], [0.0], []
    for other in rest:
        tree = trees[other]
        ahead.append(ahead[-1] + tree.best(before)[0])
        behind.append(tree.best(before | bit)[0])
        before |= 1 << other
        here.append(own.best(before)[0])
    after = np.concatenate([np.cumsum(np.array(behind)[::-1])[::-1], [0.0]])
    sums = np.array(ahead) + np.array(here) + after
    at = int(np.argmax(sums))
    return float(sums[at]), at


def _total(trees: Sequence[_Tree], order: Sequence[int]) -> float:
    total, before = 0.0, 0
    for node in order:
        total += trees[node].best(before)[0]
        before |= 1 << node
    return total


def _dag(parents: Sequence[int]) -> np.ndarray:
    matrix = np.zeros((len(parents), len(parents)), dtype=np.bool_)
    for node, mask in enumerate(parents):
        matrix[list(bits(mask)), node] = True
    return matrix
