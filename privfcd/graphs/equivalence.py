"""Markov equivalence: of two DAGs, the members of a class, and what a set of DAGs agrees on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from numpy.typing import ArrayLike

from privfcd.errors import InvalidParameter
from privfcd.graphs.cpdag import as_cpdag, dag_to_cpdag
from privfcd.graphs.orders import extensions
from privfcd.graphs.pdag import Pdag, as_dag, same_nodes


def markov_equivalent(first: Pdag | ArrayLike, second: Pdag | ArrayLike) -> bool:
    """Say whether two DAGs have the same d-separations, that is the same skeleton and v-structures.

    Verma and Pearl, Equivalence and synthesis of causal models (1990).

    Parameters
    ----------
    first, second : Pdag or array of shape (d, d)
        DAGs over the same nodes.
    """
    one, other = as_dag(first, "first"), as_dag(second, "second")
    same_nodes(one, other, "second")
    return dag_to_cpdag(one) == dag_to_cpdag(other)


def equivalence_class(cpdag: Pdag | ArrayLike) -> Iterator[Pdag]:
    """Yield every DAG of a CPDAG's Markov equivalence class once, with polynomial delay.

    Parameters
    ----------
    cpdag : Pdag or array of shape (d, d)
        The class.

    Raises
    ------
    InvalidParameter
        `cpdag` is not a CPDAG.
    """
    return extensions(as_cpdag(cpdag, "cpdag")).members()


def common_graph(dags: Iterable[Pdag | ArrayLike]) -> Pdag:
    """Return what DAGs over one skeleton agree on: an edge is directed where all of them direct it so.

    Parameters
    ----------
    dags : iterable of Pdag or array of shape (d, d)
        At least one.

    Raises
    ------
    InvalidParameter
        No DAG is given, or they do not share one skeleton.
    """
    given = [as_dag(dag, f"dags[{k}]") for k, dag in enumerate(dags)]
    if not given:
        raise InvalidParameter("dags must be at least one DAG, got none")
    entries = [0] * given[0].p
    for k, dag in enumerate(given):
        if dag.adjacent != given[0].adjacent:
            raise InvalidParameter(f"dags must share one skeleton; dags[{k}] has another than dags[0]")
        entries = [mask | parents for mask, parents in zip(entries, dag.parents, strict=True)]
    return Pdag.from_entries(entries)
