"""The consensus masks of I-PERI: a candidate graph H seen through a party's CPDAG C.

An edge stays only where both graphs have it. Where one directs it and the other does not, `directed_consensus` (mu,
phase 1) directs it and `undirected_consensus` (nu, phase 2) does not. Where they direct it in opposite ways the paper
(Regret-based federated causal discovery with unknown interventions, arXiv:2512.23626) defines nothing: mu drops the
edge, as the authors' program does, and nu leaves it undirected, the mildest reading of "undirected wins"; either can be
told to do the other. The authors' program has no nu: it takes H on the skeleton of C, here `skeleton_consensus`.
"""

from __future__ import annotations

from typing import Literal

from numpy.typing import ArrayLike

from privfcd.checks import refuse
from privfcd.graphs.pdag import Pdag, as_pdag, bits, same_nodes

Conflict = Literal["drop", "undirect"]


def directed_consensus(graph: Pdag | ArrayLike, party: Pdag | ArrayLike, conflict: Conflict = "drop") -> Pdag:
    """Return mu(H, C): edges that both graphs have, directed where either directs them.

    Parameters
    ----------
    graph, party : Pdag or array of shape (p, p)
        The candidate H and the party's CPDAG C. The mask is symmetric in them.
    conflict : {"drop", "undirect"}
        What opposite directions become: no edge, or an undirected edge.

    Raises
    ------
    InvalidParameter
        Graphs of different sizes, or an unknown `conflict`.
    """
    first, second = _pair(graph, party)
    both = [a & b for a, b in zip(first.entries(), second.entries(), strict=True)]
    if _undirects(conflict):
        both = [mask | against for mask, against in zip(both, _conflicts(first, second), strict=True)]
    return Pdag.from_entries(both)


def undirected_consensus(graph: Pdag | ArrayLike, party: Pdag | ArrayLike, conflict: Conflict = "undirect") -> Pdag:
    """Return nu(H, C): edges that both graphs have, directed only where both direct them alike.

    Parameters
    ----------
    graph, party : Pdag or array of shape (p, p)
        The candidate H and the party's CPDAG C. The mask is symmetric in them.
    conflict : {"undirect", "drop"}
        What opposite directions become: an undirected edge, or no edge.

    Raises
    ------
    InvalidParameter
        Graphs of different sizes, or an unknown `conflict`.
    """
    first, second = _pair(graph, party)
    shared = zip(first.entries(), second.entries(), first.adjacent, second.adjacent, strict=True)
    entries = [(a | b) & near & also for a, b, near, also in shared]
    if not _undirects(conflict):
        entries = [mask & ~against for mask, against in zip(entries, _conflicts(first, second), strict=True)]
    return Pdag.from_entries(entries)


def skeleton_consensus(graph: Pdag | ArrayLike, party: Pdag | ArrayLike) -> Pdag:
    """Return H without the edges that C lacks; C's directions are not looked at.

    Parameters
    ----------
    graph : Pdag or array of shape (d, d)
        H, the common graph.
    party : Pdag or array of shape (d, d)
        C, the party's.

    Raises
    ------
    InvalidParameter
        Graphs of different sizes.
    """
    first, second = _pair(graph, party)
    return Pdag.from_entries(a & near for a, near in zip(first.entries(), second.adjacent, strict=True))


def _pair(graph: Pdag | ArrayLike, party: Pdag | ArrayLike) -> tuple[Pdag, Pdag]:
    first = as_pdag(graph, "graph")
    return first, same_nodes(first, as_pdag(party, "party"), "party")


def _undirects(conflict: Conflict) -> bool:
    if conflict not in ("drop", "undirect"):
        raise refuse("conflict", conflict, "'drop' or 'undirect'")
    return conflict == "undirect"


def _conflicts(first: Pdag, second: Pdag) -> list[int]:
    """Return, for each node, the others with which its edge has opposite directions in the two graphs."""
    found = [0] * first.p
    for j in range(first.p):
        for i in bits(first.parents[j] & second.children[j]):
            found[j] |= 1 << i
            found[i] |= 1 << j
    return found
