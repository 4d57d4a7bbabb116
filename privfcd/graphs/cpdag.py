"""CPDAGs: from a DAG, from a partially directed graph, and whether a graph is one."""

from __future__ import annotations

from numpy.typing import ArrayLike

from privfcd.errors import InvalidParameter
from privfcd.graphs.orders import consistent_extension
from privfcd.graphs.pdag import Pdag, as_pdag, bits, topological_order


def dag_to_cpdag(dag: Pdag | ArrayLike) -> Pdag:
    """Return the CPDAG of a DAG's Markov equivalence class.

    Chickering's labelling of edges (A transformational characterization of equivalent Bayesian network structures,
    UAI 1995): nodes in topological order, and for each the last of its parents decides. O(p) operations on masks
    after the order.

    Parameters
    ----------
    dag : Pdag or array of shape (p, p)
        `[i, j]` non-zero is i -> j.

    Raises
    ------
    InvalidParameter
        `dag` has an undirected edge or a directed cycle.

    Examples
    --------
    >>> dag_to_cpdag([[0, 1, 0], [0, 0, 1], [0, 0, 0]]).matrix().astype(int).tolist()
    [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    """
    given = as_pdag(dag, "dag")
    order = topological_order(given)
    if order is None or any(given.neighbours):
        raise InvalidParameter("dag must be a DAG: no undirected edge and no directed cycle")
    place = [0] * given.p
    for position, node in enumerate(order):
        place[node] = position
    compelled = [0] * given.p
    reversible = [0] * given.p
    for y in order:
        parents = given.parents[y]
        if not parents:
            continue
        x = max(bits(parents), key=place.__getitem__)
        if compelled[x] & ~parents or parents & ~given.parents[x] & ~(1 << x):
            compelled[y] = parents
        else:
            compelled[y] = compelled[x]
        for parent in bits(parents & ~compelled[y]):
            reversible[y] |= 1 << parent
            reversible[parent] |= 1 << y
    return Pdag(tuple(compelled), tuple(reversible))


def pdag_to_cpdag(graph: Pdag | ArrayLike) -> Pdag | None:
    """Return the CPDAG of a partially directed graph's consistent extensions, or None where there is none.

    Those extensions are Markov equivalent, as they share the skeleton and the v-structures.

    Parameters
    ----------
    graph : Pdag or array of shape (d, d)
        Partially directed.
    """
    dag = consistent_extension(graph)
    return None if dag is None else dag_to_cpdag(dag)


def is_cpdag(graph: Pdag | ArrayLike) -> bool:
    """Say whether a graph is the CPDAG of some DAG.

    Parameters
    ----------
    graph : Pdag or array of shape (d, d)
        Partially directed.
    """
    given = as_pdag(graph)
    return pdag_to_cpdag(given) == given


def as_cpdag(graph: Pdag | ArrayLike, name: str) -> Pdag:
    """Return `graph` as a `Pdag`; InvalidParameter where it is not a CPDAG."""
    given = as_pdag(graph, name)
    if not is_cpdag(given):
        raise InvalidParameter(f"{name} must be a CPDAG: the graph of a Markov equivalence class of DAGs")
    return given
