"""Phase 2: directions for the common graph's undirected edges, by three rules.

- "votes" (ours): the parties' CPDAGs are votes. Where they are consistent with one DAG and some targets, the class
  of all such DAGs and targets is computed exactly, and nothing tighter can be said. If they are so with each other, but
  not with the common graph that the search found, the search is at fault and theirs is taken; otherwise statements are
  accepted by their lead in supporters, and Meek's rules hold (see `privfcd.graphs.votes`).
- "regret": the paper's second phase with what it needs to be sound. A collider i -> j <- l of edges whose ends i and l are
  adjacent is made where it lowers the regret under nu of more parties (their CPDAGs have this v-structure, which the common
  graph lacks) than those whose regret under mu it raises, noise aside. Then Meek's rules. Exact CPDAGs never oppose.
- "authors": what their program does, for comparison. Each step takes the arrow that lowers the worst regret most,
  where an undirected edge counts as a parent at both ends and a parent costs 10⁴ ln n. So dropping a parent always
  pays: every edge is directed, also by observational parties alone, and neither Meek's rules nor acyclicity are
  looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from privfcd.algorithms.ges.search import TOLERANCE
from privfcd.algorithms.peri import messages
from privfcd.algorithms.peri.regrets import RegretScore, minus_worst
from privfcd.algorithms.protocol import Federation
from privfcd.algorithms.rounds import expect
from privfcd.algorithms.scores import AnswersUsedUp, Remembered
from privfcd.graphs.cpdag import is_cpdag
from privfcd.graphs.meek import meek_closure
from privfcd.graphs.orders import extensions
from privfcd.graphs.pdag import Pdag, bits, with_arrows
from privfcd.graphs.unknown_targets import common_cpdag, unknown_target_class
from privfcd.graphs.votes import vote

Step = tuple[str, tuple[int, ...], int, int]

AUTHORS_PER_PARENT = 1e4
"""What a parent costs in the authors' second phase, in units of ln n."""


@dataclass(frozen=True)
class Directed:
    """What phase 2 came to.

    Attributes
    ----------
    common : Pdag
        The common graph: as given, or that of the parties' CPDAGs.
    graph : Pdag
        The same with directions.
    steps : list of (str, tuple of int, int, int)
        Kind, nodes, and how many parties were for it and against it.
    messages, families : int
        How often the parties were asked, and for how many families.
    rule : str
        What decided, in words.
    used_up : AnswersUsedUp or None
        Why it ended early, where a party had no regrets left that were paid for; `graph` is what it had reached.
    """

    common: Pdag
    graph: Pdag
    steps: list[Step] = field(default_factory=list)
    messages: int = 0
    families: int = 0
    rule: str = ""
    used_up: AnswersUsedUp | None = None


def by_votes(common: Pdag, federation: Federation, min_support: int, missing_edges: bool) -> Directed:
    """Return the directions that the parties' CPDAGs imply, or vote for.

    Parameters
    ----------
    common : Pdag
        With a consistent extension.
    federation : Federation
        Whose parties show their CPDAGs.
    min_support : int
        Least number of parties behind a statement. Above 1 there is a vote in any case.
    missing_edges : bool
        Whether an edge that a party lacks says something, see `vote`. Without there is a vote in any case.
    """
    answers = expect(federation, messages.AskGraph(), messages.Graph, common.p)
    graphs = [answer.decode(common.p, name) for name, answer in zip(federation.names, answers, strict=True)]
    if min_support == 1 and missing_edges and all(is_cpdag(graph) for graph in (common, *graphs)):
        for base in (common, common_cpdag(graphs)):
            found = None if base is None else unknown_target_class(base, graphs)
            if base is not None and found is not None:
                steps = _shown(base, found.graph, graphs)
                return Directed(base, found.graph, steps, 1, rule="class of unknown targets")
    voted = vote(common, graphs, min_support, missing_edges)
    steps = [(each.kind, each.nodes, each.support, each.opposition) for each in voted.accepted]
    return Directed(common, voted.graph, steps, 1, rule="votes")


def _shown(common: Pdag, graph: Pdag, parties: Sequence[Pdag]) -> list[Step]:
    fresh = [(i, j) for i, j in graph.directed_edges() if common.neighbours[j] >> i & 1]
    return [
        (
            "arrow",
            (i, j),
            sum(party.parents[j] >> i & 1 for party in parties),
            sum(party.parents[i] >> j & 1 for party in parties),
        )
        for i, j in fresh
    ]


def by_regret(common: Pdag, federation: Federation, rows: Sequence[int]) -> Directed:
    """Return the graph with the colliders that more parties' regrets ask for than forbid.

    Parameters
    ----------
    common : Pdag
        With a consistent extension.
    federation : Federation
        Whose parties answer.
    rows : sequence of int
        Their numbers of rows; a change of a regret by up to ln(n) / 2, a parameter's price, is taken for noise.
    """
    members = extensions(common)
    graph, arrows = common, list[tuple[int, int]]()
    steps: list[Step] = []
    noise = np.log(np.maximum(np.array(rows, dtype=np.float64), 2.0)) / 2
    asked = 0
    used_up = None
    while candidates := _colliders(graph):
        ask = messages.AskColliders(graph, ((), *candidates))
        try:
            many = len(candidates) + 1
            answers = expect(federation, ask, messages.ColliderRegrets, many)
        except AnswersUsedUp as error:
            used_up = error
            break
        asked += 1
        nu = np.column_stack([answer.undirected for answer in answers])
        mu = np.column_stack([answer.directed for answer in answers])
        support = (nu[1:] - nu[0] < -noise).sum(axis=1)
        against = (mu[1:] - mu[0] > noise).sum(axis=1)
        for at in np.argsort(-minus_worst(-nu[1:]), kind="stable").tolist():
            if support[at] > against[at] and members.member([*arrows, *candidates[at]]) is not None:
                break
        else:
            break
        arrows += candidates[at]
        graph = meek_closure(common, arrows)
        (i, j), (other, _) = candidates[at]
        steps.append(("collider", (i, j, other), int(support[at]), int(against[at])))
    return Directed(common, graph, steps, asked, rule="regrets", used_up=used_up)


def _colliders(graph: Pdag) -> list[tuple[tuple[int, int], ...]]:
    """Return the colliders of adjacent ends that the graph leaves open, in rising order."""
    found: list[tuple[tuple[int, int], ...]] = []
    for j in range(graph.p):
        into = graph.entries()[j]
        for i in bits(into):
            for other in bits((into & graph.adjacent[i]) >> (i + 1) << (i + 1)):
                if graph.neighbours[j] & (1 << i | 1 << other):
                    found.append(((i, j), (other, j)))
    return found


def by_authors_rule(common: Pdag, federation: Federation, worst: str) -> Directed:
    """Return what the authors' program makes of the common graph; need not be acyclic."""
    memory = Remembered(RegretScore(federation, common.p, "skeleton", worst, AUTHORS_PER_PARENT))
    steps: list[Step] = []
    graph = common
    families = list(enumerate(graph.entries()))
    rule = "the authors' program"
    try:
        memory.prepare(families)
    except AnswersUsedUp as error:
        return Directed(common, graph, steps, memory.messages, memory.families, rule, error)
    sums = np.sum([memory[family] for family in families], axis=0)
    used_up = None
    while graph.undirected_edges():
        arrows = [arrow for i, j in graph.undirected_edges() for arrow in ((i, j), (j, i))]
        columns = graph.entries()
        dropped = [((i, columns[i] & ~(1 << j)), (i, columns[i])) for i, j in arrows]
        try:
            memory.prepare(family for pair in dropped for family in pair)
        except AnswersUsedUp as error:
            used_up = error
            break
        changes = np.array([memory[after] - memory[before] for after, before in dropped])
        gains = memory.score.total(sums + changes) - memory.score.total(sums)
        best = int(np.argmax(gains))
        if not gains[best] > max(TOLERANCE, 1e-12 * math.fabs(float(memory.score.total(sums)))):
            break
        graph, sums = with_arrows(graph, [arrows[best]]), sums + changes[best]
        steps.append(("arrow", arrows[best], 0, 0))
    return Directed(common, graph, steps, memory.messages, memory.families, rule, used_up)
