"""What parties' CPDAGs say about one DAG, when each party's intervention targets are not known.

Party k's rows follow the DAG G without the edges into its targets S_k; its CPDAG is C_k = C(G without those edges).
One party has no targets, and its CPDAG C(G) is the common one. The unknown-target class of C(G), C_1, ..., C_K is
the set of all DAGs G' in the Markov equivalence class of G such that for each k some S gives C(G' without the edges
into S) = C_k. It holds G, so what its members agree on is true; and no method that sees just the CPDAGs can say more.

Membership is a matter of pairs of edges at one node. Let R_k be the edges of C(G) that C_k lacks. A suitable S for
G' has to hold the head of each edge in R_k and no head of another edge, and then the skeleton is right. So G' is in
the class exactly when, for each k,

- at each node the incoming edges are all in R_k or all outside of it: i -> j <- l is forbidden where one of the two
  edges is in R_k and the other is not;
- among the edges outside of R_k, i -> j <- l with i and l not adjacent in C_k holds exactly where C_k has it.

Acyclic orientations with required arrows and forbidden colliders are solved exactly in polynomial time by
`privfcd.graphs.orders`. There is no limit on p from this module, and no orientation is given that some member lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from numpy.typing import ArrayLike

from privfcd.checks import refuse
from privfcd.errors import InvalidParameter
from privfcd.graphs.cpdag import as_cpdag, dag_to_cpdag
from privfcd.graphs.orders import OrientationClass, extensions, forbid
from privfcd.graphs.pdag import Pdag, as_dag, bits, mutilate, node_mask, same_nodes
from privfcd.graphs.votes import transfer

Rule = Literal["transfer", "unknown", "known"]


@dataclass(frozen=True, eq=False)
class TargetClass:
    """The DAGs that are consistent with a common CPDAG and the parties' CPDAGs; never empty.

    Attributes
    ----------
    graph : Pdag
        What all members agree on: an edge is directed exactly when all of them direct it so.
    orientations : OrientationClass
        The class as constraints.
    removed : tuple of tuples of p ints
        `removed[k][j]` is the mask of the common graph's neighbours of j whose edge to j party k lacks.
    """

    graph: Pdag
    orientations: OrientationClass
    removed: tuple[tuple[int, ...], ...]

    def members(self) -> Iterator[Pdag]:
        """Yield every DAG of the class once, with polynomial delay."""
        return self.orientations.members()

    def contains(self, dag: Pdag | ArrayLike) -> bool:
        """Say whether a DAG is in the class."""
        return self.orientations.contains(dag)

    def possible_targets(self, party: int) -> frozenset[int]:
        """Return the nodes into which some member has an edge that party `party` lacks.

        A target without parents leaves no trace, so it is in no such set.
        """
        removed = self.removed[party]
        into = self.graph.entries()
        return frozenset(j for j, mask in enumerate(removed) if mask & into[j])

    def certain_targets(self, party: int) -> frozenset[int]:
        """Return the nodes into which every member has an edge that party `party` lacks: targets for sure."""
        removed = self.removed[party]
        return frozenset(
            j for j, mask in enumerate(removed) if mask and self.orientations.member((j, i) for i in bits(mask)) is None
        )


def common_cpdag(parties: Sequence[Pdag | ArrayLike]) -> Pdag | None:
    """Return the CPDAG among the parties' whose skeleton holds all the others', or None where there is none.

    A party without targets has that one, as targets only remove edges. Where several have that skeleton, exact CPDAGs
    are equal; None where they are not.

    Parameters
    ----------
    parties : sequence of Pdag or array of shape (d, d)
        Each party's CPDAG.

    Raises
    ------
    InvalidParameter
        No party, graphs of different sizes, or a graph that is not a CPDAG.
    """
    graphs = [as_cpdag(graph, f"parties[{k}]") for k, graph in enumerate(parties)]
    if not graphs:
        raise InvalidParameter("parties must be at least one CPDAG, got none")
    union = [0] * graphs[0].p
    for k, graph in enumerate(graphs):
        same_nodes(graphs[0], graph, f"parties[{k}]")
        union = [mask | near for mask, near in zip(union, graph.adjacent, strict=True)]
    full = {graph for graph in graphs if graph.adjacent == tuple(union)}
    return full.pop() if len(full) == 1 else None


def unknown_target_class(common: Pdag | ArrayLike, parties: Iterable[Pdag | ArrayLike]) -> TargetClass | None:
    """Return the class of all DAGs and unknown targets that are consistent with the CPDAGs.

    Exact for every number of nodes: its graph is at least as directed as that of `transfer`, and for exact CPDAGs
    every direction is the true DAG's.

    Parameters
    ----------
    common : Pdag or array of shape (p, p)
        CPDAG of the party without targets; see `common_cpdag`.
    parties : iterable of Pdag or arrays of shape (p, p)
        The parties' CPDAGs; the common one may be among them.

    Returns
    -------
    TargetClass or None
        None where no DAG and no targets explain the CPDAGs, as happens with estimated ones: see `vote`.

    Raises
    ------
    InvalidParameter
        A graph is not a CPDAG, or graphs of different sizes.
    """
    return _target_class(common, parties, None)


def known_target_class(
    common: Pdag | ArrayLike, parties: Iterable[Pdag | ArrayLike], targets: Iterable[Iterable[int]]
) -> TargetClass | None:
    """Return the class of all DAGs that are consistent with the CPDAGs and the parties' known targets.

    For structural interventions this is the interventional equivalence class of Hauser and Bühlmann (JMLR 13, 2012),
    with the family of the parties' targets and the empty one: same skeletons and v-structures under each target.

    Parameters
    ----------
    common, parties
        As in `unknown_target_class`.
    targets : iterable of iterables of int
        Each party's targets, in the order of `parties`.

    Returns
    -------
    TargetClass or None
        None where no DAG explains the CPDAGs.

    Raises
    ------
    InvalidParameter
        A graph is not a CPDAG, graphs of different sizes, or targets that are not one set of nodes a party.
    """
    return _target_class(common, parties, list(targets))


def party_cpdags(dag: Pdag | ArrayLike, targets: Iterable[Iterable[int]]) -> tuple[Pdag, ...]:
    """Return the CPDAG that each party would learn from infinitely many rows: of the DAG cut at its targets.

    Parameters
    ----------
    dag : Pdag or array of shape (d, d)
        Directed, without cycles.
    targets : iterable of iterables of int
        The nodes that each party intervenes on.
    """
    given = as_dag(dag)
    return tuple(dag_to_cpdag(mutilate(given, nodes)) for nodes in targets)


def phi_cpdag(dag: Pdag | ArrayLike, targets: Iterable[Iterable[int]], rule: Rule = "transfer") -> Pdag:
    """Return the Phi-CPDAG of a DAG under a family of targets: its CPDAG with what the parties' CPDAGs add.

    Parameters
    ----------
    dag : Pdag or array of shape (p, p)
        The true DAG.
    targets : iterable of iterables of int
        Each party's targets; an empty set is a party without intervention, which is always taken as given.
    rule : {"transfer", "unknown", "known"}
        "transfer": directions of the parties' CPDAGs, then Meek's rules; this is I-PERI's Phi-CPDAG. "unknown": the
        graph of the unknown-target class, the most that the CPDAGs say. "known": the graph of the class for known
        targets. Each is at least as directed as the one before.

    Raises
    ------
    InvalidParameter
        Not a DAG, a target that is not a node, or an unknown rule.
    """
    given = as_dag(dag)
    if rule not in ("transfer", "unknown", "known"):
        raise refuse("rule", rule, "'transfer', 'unknown' or 'known'")
    family = [list(nodes) for nodes in targets]
    common, parties = dag_to_cpdag(given), party_cpdags(given, family)
    if rule == "transfer":
        return transfer(common, parties).graph
    found = _target_class(common, parties, family if rule == "known" else None)
    assert found is not None  # the DAG itself is a member
    return found.graph


def _target_class(
    common: Pdag | ArrayLike, parties: Iterable[Pdag | ArrayLike], targets: Sequence[Iterable[int]] | None
) -> TargetClass | None:
    base = as_cpdag(common, "common")
    graphs = [same_nodes(base, as_cpdag(graph, f"parties[{k}]"), f"parties[{k}]") for k, graph in enumerate(parties)]
    if targets is not None and len(targets) != len(graphs):
        raise InvalidParameter(f"targets must be one set for each of the {len(graphs)} parties, got {len(targets)}")
    cuts = None if targets is None else [node_mask(f"targets[{k}]", t, base.p) for k, t in enumerate(targets)]
    start = extensions(base)
    after, apart = list(start.after), start.apart
    removed = []
    for k, graph in enumerate(graphs):
        if any(near & ~held for near, held in zip(graph.adjacent, base.adjacent, strict=True)):
            return None  # targets only remove edges
        lost = tuple(near & ~held for near, held in zip(base.adjacent, graph.adjacent, strict=True))
        removed.append(lost)
        for j in range(base.p):
            if cuts is not None:
                after[j] |= graph.adjacent[j] if cuts[k] >> j & 1 else lost[j]
            _constrain(graph, j, lost[j], after, apart[j])
    orientations = OrientationClass(base.adjacent, tuple(after), apart)
    agreed = orientations.graph()
    return None if agreed is None else TargetClass(agreed, orientations, tuple(removed))


def _constrain(graph: Pdag, j: int, lost: int, after: list[int], pairs: dict[int, int]) -> None:
    """Add what one party's CPDAG says about the edges at node j."""
    for i in bits(graph.adjacent[j]):
        for other in bits(lost):
            forbid(pairs, i, other)
        for other in bits((graph.adjacent[j] & ~graph.adjacent[i]) >> (i + 1) << (i + 1)):
            if graph.parents[j] >> i & graph.parents[j] >> other & 1:
                after[i] |= 1 << j
                after[other] |= 1 << j
            else:
                forbid(pairs, i, other)
