"""Greedy equivalence search on any decomposable score: forward, backward, and turning steps to a fixed point.

What one step may do is asked for in one message. After a step only those pairs are listed again whose operators can have
changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.algorithms.ges.operators import Kind, Operator, apply, blocked, deletes, inserts, turns
from privfcd.algorithms.scores import AnswersUsedUp, Family, LocalScore, Remembered
from privfcd.graphs.cpdag import dag_to_cpdag
from privfcd.graphs.orders import consistent_extension
from privfcd.graphs.pdag import Pdag, bits

Array = NDArray[np.float64]

TOLERANCE, RELATIVE = 1e-8, 1e-12
"""A step must gain more than this, and more than this share of the total, so that rounding decides nothing."""

_LISTS: dict[Kind, Callable[[Pdag, int, int], Iterator[Operator]]] = {
    "insert": inserts,
    "delete": deletes,
    "turn": turns,
}


@dataclass
class SearchResult:
    """Where a search ended.

    Attributes
    ----------
    cpdag : Pdag
        The class.
    score : float
        Its value.
    steps : list of (str, int, int)
        Operators by kind, x and y.
    messages, families : int
        How often the score was asked, and for how many distinct families.
    used_up : AnswersUsedUp or None
        Why the search ended early, where the score had too few answers left for a step; `cpdag` is what it had reached.
    """

    cpdag: Pdag
    score: float
    messages: int
    families: int
    steps: list[tuple[str, int, int]] = field(default_factory=list)
    used_up: AnswersUsedUp | None = None


def greedy_search(
    score: LocalScore,
    *,
    start: Pdag | None = None,
    turning: bool = True,
    max_parents: int | None = None,
) -> SearchResult:
    """Search from `start` (the empty graph by default) until no operator improves the score.

    Forward, backward and, with `turning`, turning phases are repeated until a whole turn changes nothing. No class
    is entered twice, so that the search ends for scores too that differ within a class.

    Parameters
    ----------
    score : LocalScore
        Larger is better.
    start : Pdag, optional
        A CPDAG.
    turning : bool
        Whether edges may be turned.
    max_parents : int, optional
        Families larger than this are not looked at.
    """
    if not isinstance(turning, bool):
        raise checks.refuse("turning", turning, "True or False")
    if max_parents is not None:
        max_parents = checks.count("max_parents", max_parents, least=0)
    graph = Pdag((0,) * score.d, (0,) * score.d) if start is None else start
    if graph.p != score.d:
        raise checks.refuse("start", graph.p, f"a graph on {score.d} nodes")
    scores = Remembered(score)
    try:
        search = _Search(scores, graph, score.d if max_parents is None else max_parents)
    except AnswersUsedUp as error:  # not even the start's own value is known
        return SearchResult(graph, math.nan, scores.messages, scores.families, used_up=error)
    phases: tuple[Kind, ...] = ("insert", "delete", "turn") if turning else ("insert", "delete")
    used_up = None
    try:
        while any([search.phase(kind) for kind in phases]):
            continue
    except AnswersUsedUp as error:
        used_up = error
    value = float(score.total(search.sums))
    return SearchResult(search.graph, value, scores.messages, scores.families, search.steps, used_up)


class _Search:
    def __init__(self, scores: Remembered, graph: Pdag, max_parents: int) -> None:
        self.scores = scores
        self.steps: list[tuple[str, int, int]] = []
        self._most = max_parents
        dag = consistent(graph)
        families = list(enumerate(dag.parents))
        scores.prepare(families)
        self.sums: Array = np.sum([scores[family] for family in families], axis=0)
        self.graph = graph
        self._seen = {graph}

    def phase(self, kind: Kind) -> bool:
        """Take the best steps of one kind until none improves; say whether there was one."""
        table = _OperatorTable(self.sums.size)
        changed = (1 << self.graph.p) - 1
        moved = False
        while True:
            self._list(kind, table, changed)
            before = self.graph
            if not self._step(table):
                return moved
            moved = True
            changed = _difference(before, self.graph)

    def _list(self, kind: Kind, table: _OperatorTable, changed: int) -> None:
        graph = self.graph
        fresh: list[Operator] = []
        for y in range(graph.p):
            all_of_y = bool(changed >> y & 1 or changed & graph.neighbours[y])
            ends = _ends(graph, kind, y)
            for x in range(graph.p) if all_of_y else bits(changed):
                table.drop(x, y)
                if ends >> x & 1:
                    fresh.extend(
                        operator
                        for operator in _LISTS[kind](graph, x, y)
                        if all(parents.bit_count() <= self._most for _, parents in operator.gained)
                    )
        self.scores.prepare(family for operator in fresh for family in (*operator.gained, *operator.lost))
        table.add(fresh, self.scores.known)

    def _step(self, table: _OperatorTable) -> bool:
        total = self.scores.score.total
        now = float(total(self.sums))
        gains = total(self.sums + table.changes()) - now
        least = max(TOLERANCE, RELATIVE * abs(now))
        operators = table.operators
        promising = [at for at in np.flatnonzero(gains > least).tolist() if operators[at] is not None]
        for at in sorted(promising, key=lambda at: (-gains[at], _key(operators[at]))):
            operator = operators[at]
            if operator is None or blocked(self.graph, operator):
                continue
            dag = apply(self.graph, operator)
            if dag is None:
                continue
            reached = dag_to_cpdag(dag)
            if reached in self._seen:
                continue
            self._seen.add(reached)
            self.graph = reached
            self.sums = self.sums + table.changes()[at]
            self.steps.append((operator.kind, operator.x, operator.y))
            return True
        return False


class _OperatorTable:
    """Operators with the changes of the parties' sums, kept in one array while pairs come and go."""

    def __init__(self, parties: int) -> None:
        self.operators: list[Operator | None] = []
        self._changes = np.empty((256, parties))
        self._places: dict[tuple[int, int], list[int]] = {}

    def changes(self) -> Array:
        """Return the changes, shape (operators, parties); what was dropped is NaN."""
        return self._changes[: len(self.operators)]

    def drop(self, x: int, y: int) -> None:
        """Forget the operators of a pair."""
        for at in self._places.pop((x, y), ()):
            self.operators[at] = None
            self._changes[at] = np.nan

    def add(self, operators: list[Operator], known: dict[Family, Array]) -> None:
        """Add operators whose families are known."""
        start, needed = len(self.operators), len(self.operators) + len(operators)
        if needed > len(self._changes):
            larger = np.empty((2 * needed, self._changes.shape[1]))
            larger[:start] = self._changes[:start]
            self._changes = larger
        for at, operator in enumerate(operators, start=start):
            self._places.setdefault((operator.x, operator.y), []).append(at)
            change = known[operator.gained[0]] - known[operator.lost[0]]
            for gained, lost in zip(operator.gained[1:], operator.lost[1:], strict=True):
                change = change + known[gained] - known[lost]
            self._changes[at] = change
        self.operators.extend(operators)


def _ends(graph: Pdag, kind: Kind, y: int) -> int:
    """Return the mask of x for which there may be operators of this kind on (x, y)."""
    if kind == "insert":
        return ~graph.adjacent[y] & ~(1 << y) & ((1 << graph.p) - 1)
    if kind == "delete":
        return graph.parents[y] | graph.neighbours[y]
    return graph.children[y] | graph.neighbours[y]


def _difference(one: Pdag, other: Pdag) -> int:
    """Return the nodes whose edges differ."""
    mask = 0
    for node in range(one.p):
        if one.parents[node] != other.parents[node] or one.neighbours[node] != other.neighbours[node]:
            mask |= 1 << node
        if one.children[node] != other.children[node]:
            mask |= 1 << node
    return mask


def _key(operator: Operator | None) -> tuple[int, int, int]:
    assert operator is not None
    return operator.x, operator.y, operator.nodes


def consistent(graph: Pdag) -> Pdag:
    """Return a DAG of the class of `graph`, or raise InvalidParameter."""
    dag = consistent_extension(graph)
    if dag is None:
        raise checks.refuse("start", graph, "a CPDAG")
    return dag
