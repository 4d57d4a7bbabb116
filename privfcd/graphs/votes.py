"""Directions from the parties' CPDAGs onto the common CPDAG, where the CPDAGs may be wrong.

Each party's graph is a vote. A statement is used where it has more supporters than opponents and at least
`min_support` supporters; a tie is used for neither side. Statements go in by falling lead (supporters minus
opponents), and one that leaves no DAG of the common equivalence class is rejected. So the result always has a
consistent extension that is a member of the common class, and with exact CPDAGs nothing is ever rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from numpy.typing import ArrayLike

from privfcd.checks import count
from privfcd.errors import InvalidParameter
from privfcd.graphs.meek import meek_closure
from privfcd.graphs.orders import OrientationClass, extensions, forbid
from privfcd.graphs.pdag import Pdag, as_pdag, bits, same_nodes

Kind = Literal["arrow", "collider", "no collider"]

_FIRST: tuple[Kind, ...] = ("collider", "arrow", "no collider")  # at the same lead


@dataclass(frozen=True)
class Statement:
    """What parties say about edges of the common graph.

    Attributes
    ----------
    kind : {"arrow", "collider", "no collider"}
        nodes[0] -> nodes[1]; nodes[0] -> nodes[1] <- nodes[2]; or that not both of these arrows hold.
    nodes : tuple of two or three ints
        The nodes, the middle one of a triple in the middle.
    support, opposition : int
        Parties whose graphs say so, and parties whose graphs say the opposite.
    """

    kind: Kind
    nodes: tuple[int, ...]
    support: int
    opposition: int


@dataclass(frozen=True)
class VotedGraph:
    """A common CPDAG with directions that the parties voted for.

    Attributes
    ----------
    graph : Pdag
        Closed: no further direction follows from the accepted statements.
    accepted : tuple of Statement
        What was used, by falling lead.
    rejected : tuple of Statement
        What had the votes, but no DAG of the common class agrees with it and with what was accepted before.
    """

    graph: Pdag
    accepted: tuple[Statement, ...]
    rejected: tuple[Statement, ...]


def transfer(common: Pdag | ArrayLike, parties: Iterable[Pdag | ArrayLike], min_support: int = 1) -> VotedGraph:
    """Direct undirected edges of the common graph as the parties' graphs direct them; then Meek's rules.

    With exact CPDAGs (the common one of a DAG, each party's of that DAG without the edges into some targets) every
    direction is the DAG's: a direction in a CPDAG is that of all members of its class, among them the party's own
    DAG, which is a part of the common one. It is not all that the CPDAGs say: see `unknown_target_class`.

    Parameters
    ----------
    common : Pdag or array of shape (p, p)
        The common CPDAG, or any partially directed graph that has a consistent extension.
    parties : iterable of Pdag or arrays of shape (p, p)
        The parties' CPDAGs, exact or estimated. Edges that the common graph lacks are ignored.
    min_support : int
        Least number of parties that must direct an edge the same way.

    Returns
    -------
    VotedGraph
        The statements are arrows; the opposition is the parties with the opposite arrow.

    Raises
    ------
    InvalidParameter
        The common graph has no consistent extension, graphs of different sizes, or `min_support` below 1.
    """
    base, graphs, least = _checked(common, parties, min_support)
    accepted, rejected, _ = _by_lead(base, _arrows(base, graphs), least)
    arrows = [(statement.nodes[0], statement.nodes[1]) for statement in accepted]
    return VotedGraph(meek_closure(base, arrows), accepted, rejected)


def vote(
    common: Pdag | ArrayLike,
    parties: Iterable[Pdag | ArrayLike],
    min_support: int = 1,
    missing_edges: bool = True,
    arrows: bool = True,
) -> VotedGraph:
    """Direct the common graph by the arrows, colliders, non-colliders and missing edges of the parties' graphs.

    Arrows are voted on as in `transfer`. For each two edges i - j - l of the common graph whose ends i and l are
    adjacent there, a party with both edges and without i - l votes for the collider i -> j <- l or against it, as its
    graph says; a party that has just one of the two edges votes against it, since a target loses all its incoming
    edges. What follows from the accepted statements is then found exactly (see `privfcd.graphs.orders`).

    With exact CPDAGs and the defaults the result is the graph of `unknown_target_class`: every direction that the
    CPDAGs imply, and none that they do not. With estimated CPDAGs a direction can be wrong, as the CPDAGs are.

    Parameters
    ----------
    common, parties, min_support
        As in `transfer`; `min_support` is for each statement.
    missing_edges : bool
        Whether a party that has one of the two edges votes. An estimated CPDAG can lack an edge because the test had
        no power; without these votes only what a party's edges say is used.
    arrows : bool
        Whether arrows are voted on too. For exact CPDAGs they add nothing. For estimated ones they do, but an arrow is
        opposed by the opposite arrow only; without them an edge is directed only where the parties that could tell do
        not deny the collider.

    Returns
    -------
    VotedGraph
        The statements are arrows, colliders and non-colliders.

    Raises
    ------
    InvalidParameter
        As in `transfer`.
    """
    base, graphs, least = _checked(common, parties, min_support)
    statements = _arrows(base, graphs) if arrows else []
    for j in range(base.p):
        for i in bits(base.adjacent[j]):
            for other in bits((base.adjacent[j] & base.adjacent[i]) >> (i + 1) << (i + 1)):
                pair = 1 << i | 1 << other
                for_it = against = 0
                for graph in graphs:
                    held = graph.adjacent[j] & pair
                    if held == pair and not graph.adjacent[i] >> other & 1:
                        if graph.parents[j] & pair == pair:
                            for_it += 1
                        else:
                            against += 1
                    elif held and held != pair and missing_edges:
                        against += 1
                if for_it > against:
                    statements.append(Statement("collider", (i, j, other), for_it, against))
                elif against > for_it:
                    statements.append(Statement("no collider", (i, j, other), against, for_it))
    accepted, rejected, oriented = _by_lead(base, statements, least)
    agreed = oriented.graph()
    assert agreed is not None  # _by_lead keeps a member
    return VotedGraph(agreed, accepted, rejected)


def _arrows(base: Pdag, graphs: Sequence[Pdag]) -> list[Statement]:
    """Return the directions that most of the parties that direct an undirected edge of the common graph give it."""
    statements = []
    for i, j in base.undirected_edges():
        forth = sum(graph.children[i] >> j & 1 for graph in graphs)
        back = sum(graph.children[j] >> i & 1 for graph in graphs)
        if forth > back:
            statements.append(Statement("arrow", (i, j), forth, back))
        elif back > forth:
            statements.append(Statement("arrow", (j, i), back, forth))
    return statements


def _checked(
    common: Pdag | ArrayLike, parties: Iterable[Pdag | ArrayLike], min_support: int
) -> tuple[Pdag, list[Pdag], int]:
    base = as_pdag(common, "common")
    graphs = [same_nodes(base, as_pdag(graph, f"parties[{k}]"), f"parties[{k}]") for k, graph in enumerate(parties)]
    least = count("min_support", min_support)
    if extensions(base).member() is None:
        raise InvalidParameter("common must have a consistent extension to a DAG")
    return base, graphs, least


def _by_lead(
    base: Pdag, statements: Sequence[Statement], least: int
) -> tuple[tuple[Statement, ...], tuple[Statement, ...], OrientationClass]:
    """Accept statements by falling lead while a member of the class is left."""

    def possible(chosen: Sequence[Statement]) -> bool:
        return _constrained(base, chosen).member() is not None

    usable = [statement for statement in statements if statement.support >= least]
    usable.sort(key=lambda s: (s.opposition - s.support, _FIRST.index(s.kind), s.nodes))
    accepted = _keep(usable, possible)
    chosen = set(accepted)
    rejected = tuple(statement for statement in usable if statement not in chosen)
    return tuple(accepted), rejected, _constrained(base, accepted)


def _keep(statements: Sequence[Statement], possible: Callable[[Sequence[Statement]], bool]) -> list[Statement]:
    """Return what accepting one after the other gives, in few trials: blocks first, halved where they fail."""
    kept: list[Statement] = []
    blocks = [list(statements)] if statements else []
    while blocks:
        block = blocks.pop()
        if possible([*kept, *block]):
            kept += block
        elif len(block) > 1:
            middle = len(block) // 2
            blocks += [block[middle:], block[:middle]]
    return kept


def _constrained(base: Pdag, statements: Iterable[Statement]) -> OrientationClass:
    start = extensions(base)
    after, apart = list(start.after), start.apart
    for statement in statements:
        if statement.kind == "no collider":
            i, j, other = statement.nodes
            forbid(apart[j], i, other)
        else:
            for source in statement.nodes[::2]:
                after[source] |= 1 << statement.nodes[1]
    return OrientationClass(start.adjacent, tuple(after), apart)
