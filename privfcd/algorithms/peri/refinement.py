"""Between the phases, ours: the common CPDAG refined by all parties' rows, where a party may name a node its target.

Phase 1 does what the worst party says, and masks by CPDAGs that each party learnt alone. Here one DAG is sought for
which the sum of the parties' regrets is least; at each node a party's regret is that of the node's parents, or that
of no parents and ln(n)/2 for naming a target (without this price an edge that nobody needs would cost nothing). A
structural intervention removes all edges into a target, so with enough rows the true DAG, with the true targets, is
a best one; and other DAGs are as good only where they explain all parties as well. The value differs within a
Markov equivalence class, so the search goes over DAGs: covered edges are reversed from several members of the
class, then arcs are added, deleted and reversed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.hill_climb import hill_climb
from privfcd.algorithms.peri.regrets import RegretScore
from privfcd.algorithms.protocol import Federation
from privfcd.algorithms.scores import AnswersUsedUp, Family, Remembered
from privfcd.graphs.cpdag import dag_to_cpdag
from privfcd.graphs.orders import extensions
from privfcd.graphs.pdag import Pdag, bits

MEMBERS = 10
"""Members of the class from which covered edges are reversed."""
TURNS = 3
"""How often the two searches follow each other at most."""
TOLERANCE = 1e-6
"""A step must gain more than this."""


@dataclass(frozen=True)
class Refined:
    """The common CPDAG, the DAG that it is the class of, its value, and how much was asked.

    `used_up` says why the search ended early, where a party had no regrets left that were paid for; where no value is known,
    the CPDAG is the one that it was to begin with.
    """

    cpdag: Pdag
    dag: Pdag
    score: float
    messages: int
    families: int
    used_up: AnswersUsedUp | None = None


def refined(common: Pdag, federation: Federation, seed: int = 0) -> Refined:
    """Return the class of the best DAG that is found near `common`.

    Parameters
    ----------
    common : Pdag
        With a consistent extension.
    federation : Federation
        Whose parties answer.
    seed : int
        For the members of the class where the search starts.
    """
    d = common.p
    memory = Remembered(RegretScore(federation, d, "targets", "sum"))
    generator = np.random.default_rng(seed)
    everything = ~np.eye(d, dtype=np.bool_)
    graph, best, value = common, common, -np.inf
    used_up: AnswersUsedUp | None = None
    for _ in range(TURNS):
        members = dict.fromkeys(_member(graph, generator) for _ in range(MEMBERS))
        try:
            starts = [_reversed(memory, member.parents) for member in members]
            climbed = hill_climb(memory, everything, max(starts, key=lambda found: found[1])[0])
        except AnswersUsedUp as error:
            used_up = error
            break
        used_up = climbed.used_up
        if climbed.score <= value + TOLERANCE:
            break
        value, best = climbed.score, Pdag(climbed.parents, (0,) * d)
        graph = dag_to_cpdag(best)
        if used_up is not None:
            break
    return Refined(graph, best, value, memory.messages, memory.families, used_up)


def _member(graph: Pdag, generator: np.random.Generator) -> Pdag:
    """Return a DAG of the class, undirected edges in random directions as far as they are free."""
    members = extensions(graph)
    arrows: list[tuple[int, int]] = []
    edges = graph.undirected_edges()
    for at in generator.permutation(len(edges)).tolist():
        i, j = edges[at] if generator.random() < 0.5 else edges[at][::-1]
        arrows.append((i, j) if members.member([*arrows, (i, j)]) is not None else (j, i))
    dag = members.member(arrows)
    assert dag is not None  # each arrow was possible with those before, or its opposite was
    return dag


def _reversed(memory: Remembered, start: Sequence[int]) -> tuple[tuple[int, ...], float]:
    """Reverse covered edges while that gains, which stays within the class (Chickering 1995); return parents and value."""
    parents = list(start)
    total = memory.score.total
    while True:
        moves = _covered(parents)
        memory.prepare([*enumerate(parents), *(family for move in moves for family in move)])
        gains = [float(total(_change(memory, parents, move))) for move in moves]
        if not gains or max(gains) <= TOLERANCE:
            value: NDArray[np.float64] = np.sum([memory[family] for family in enumerate(parents)], axis=0)
            return tuple(parents), float(total(value))
        for node, mask in moves[int(np.argmax(gains))]:
            parents[node] = mask


def _covered(parents: Sequence[int]) -> list[tuple[Family, Family]]:
    """Return the families after reversing each covered edge x -> y, one where y's other parents are x's."""
    return [
        ((y, parents[y] & ~(1 << x)), (x, parents[x] | 1 << y))
        for y, into in enumerate(parents)
        for x in bits(into)
        if into & ~(1 << x) == parents[x]
    ]


def _change(memory: Remembered, parents: Sequence[int], move: tuple[Family, Family]) -> NDArray[np.float64]:
    return np.sum([memory[family] - memory[family[0], parents[family[0]]] for family in move], axis=0)
