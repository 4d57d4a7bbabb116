"""Graphs to and from the graph classes of causal-learn and pgmpy (extra `interchange`).

The graphs are the networkx graphs that learners return: `weight` on edges, and two arcs with the attribute `undirected` for
an undirected edge. Both libraries are imported when they are first needed; pgmpy takes seconds to import.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

import networkx as nx

from privfcd.checks import positive, real, refuse
from privfcd.errors import InvalidParameter
from privfcd.graphs.interchange import checked_graph

_TAIL, _NONE, _ARROW = -1, 0, 1  # causal-learn's marks at the ends of edges


def to_causal_learn(graph: nx.DiGraph[str]) -> Any:
    """Return a graph as causal-learn's `GeneralGraph`.

    Parameters
    ----------
    graph : networkx.DiGraph
        Nodes are texts; two arcs with the attribute `undirected` are an undirected edge. Weights are left out, as the class
        has none.

    Returns
    -------
    causallearn.graph.GeneralGraph.GeneralGraph
        With the same names in the same order. `graph[j, i] = 1` and `graph[i, j] = -1` is i -> j; -1 at both is i - j.

    Raises
    ------
    InvalidParameter
        causal-learn is not installed, the graph is not such a graph, two nodes have arrows both ways, or a node has an edge
        to itself.
    """
    plain = _simple(graph)
    nodes_module = _imported("causallearn.graph.GraphNode", "causal-learn")
    edges_module = _imported("causallearn.graph.Edge", "causal-learn")
    ends = _imported("causallearn.graph.Endpoint", "causal-learn").Endpoint
    nodes = {name: nodes_module.GraphNode(name) for name in plain}
    made = _imported("causallearn.graph.GeneralGraph", "causal-learn").GeneralGraph(list(nodes.values()))
    for cause, effect, data in plain.edges(data=True):
        if not data.get("undirected"):
            made.add_directed_edge(nodes[cause], nodes[effect])
        elif cause < effect:
            made.add_edge(edges_module.Edge(nodes[cause], nodes[effect], ends.TAIL, ends.TAIL))
    return made


def from_causal_learn(graph: Any) -> nx.DiGraph[str]:
    """Return causal-learn's graph as a networkx graph.

    Parameters
    ----------
    graph : GeneralGraph, or what `pc` or `ges` of causal-learn return
        A graph with directed and undirected edges only; `pc`'s result has it as `G`, that of `ges` under "G".

    Returns
    -------
    networkx.DiGraph
        With the same names in the same order; an undirected edge is two arcs with the attribute `undirected` True.

    Raises
    ------
    InvalidParameter
        Not such an object, or an edge with other ends: a bidirected one (a latent common cause, or arrows in conflict) or a
        circle (a PAG).
    """
    found = graph.get("G") if isinstance(graph, Mapping) else getattr(graph, "G", graph)
    marks, nodes = getattr(found, "graph", None), getattr(found, "get_nodes", None)
    if marks is None or nodes is None:
        raise refuse("graph", type(graph).__name__, "causal-learn's GeneralGraph, or the result of its pc or ges")
    columns = [str(node.get_name()) for node in nodes()]  # the names that a Dag of causal-learn returns are functions
    if len(set(columns)) < len(columns):
        raise refuse("graph", columns, "a graph whose nodes have different names")
    made: nx.DiGraph[str] = nx.DiGraph()
    made.add_nodes_from(columns)
    for i, one in enumerate(columns):
        for j, other in enumerate(columns[i + 1 :], start=i + 1):
            pair = int(marks[i, j]), int(marks[j, i])  # the mark at i, the mark at j
            if pair == (_TAIL, _ARROW):
                made.add_edge(one, other)
            elif pair == (_ARROW, _TAIL):
                made.add_edge(other, one)
            elif pair == (_TAIL, _TAIL):
                _link(made, one, other)
            elif pair != (_NONE, _NONE):
                raise InvalidParameter(
                    f"graph must have directed and undirected edges only; between {one!r} and {other!r} are the marks {pair}"
                )
    return checked_graph(made, "graph")


def to_pgmpy(
    graph: nx.DiGraph[str],
    *,
    sd: float | Mapping[str, float] | None = None,
    intercepts: Mapping[str, float] | None = None,
) -> Any:
    """Return a graph as pgmpy's `DAG`, `PDAG` or `LinearGaussianBayesianNetwork`.

    Parameters
    ----------
    graph : networkx.DiGraph
        A DAG, or a partially directed graph whose undirected edges are two arcs with the attribute `undirected`. Weights are
        kept on the edges.
    sd : float or mapping of str to float, optional
        Standard deviations of the errors, for all nodes or by name: with them the result is a linear Gaussian network, whose
        coefficients are the weights. They are not part of a graph: learners that assume equal variances know them up to one
        number, and none releases it.
    intercepts : mapping of str to float, optional
        With `sd`: the constant term of each node's equation; 0 where not given.

    Returns
    -------
    pgmpy.base.DAG, pgmpy.base.PDAG or pgmpy.models.LinearGaussianBayesianNetwork
        A PDAG if an edge is undirected; it keeps the names, but not their order.

    Raises
    ------
    InvalidParameter
        pgmpy is not installed, the graph has a directed cycle, `sd` with an undirected edge or an edge without weight, or a
        standard deviation or intercept that is missing or no such number.
    """
    plain = _simple(graph)
    directed = [(i, j) for i, j, data in plain.edges(data=True) if not data.get("undirected")]
    linked = [(i, j) for i, j, data in plain.edges(data=True) if data.get("undirected") and i < j]
    arrows: nx.DiGraph[str] = nx.DiGraph(directed)
    if not nx.is_directed_acyclic_graph(arrows):
        raise refuse("graph", nx.find_cycle(arrows), "without directed cycles")
    if sd is not None:
        return _linear(plain, linked, sd, intercepts or {})
    if intercepts is not None:
        raise refuse("intercepts", intercepts, "given together with sd")
    base = _imported("pgmpy.base", "pgmpy")
    if linked:
        made = base.PDAG(directed_ebunch=directed, undirected_ebunch=linked)
    else:
        made = base.DAG()
        made.add_nodes_from(list(plain))  # before the edges, so that their order is kept
        made.add_edges_from(directed)
    made.add_nodes_from(list(plain))
    for i, j, data in plain.edges(data=True):
        made.edges[i, j]["weight"] = data.get("weight")
    return made


def from_pgmpy(graph: Any) -> nx.DiGraph[str]:
    """Return pgmpy's graph as a networkx graph.

    Parameters
    ----------
    graph : pgmpy.base.DAG, pgmpy.base.PDAG or a model that is one
        Nodes are texts. Weights are those of the edges, or the coefficients of a linear Gaussian network's distributions;
        other parameters are left out.

    Returns
    -------
    networkx.DiGraph
        With the same names; an undirected edge is two arcs with the attribute `undirected` True.

    Raises
    ------
    InvalidParameter
        pgmpy is not installed, not such a graph, or one with latent variables, which these graphs cannot say.
    """
    base = _imported("pgmpy.base", "pgmpy")
    if not isinstance(graph, base.DAG | base.PDAG):
        raise refuse("graph", type(graph).__name__, "pgmpy's DAG or PDAG")
    if graph.latents:
        raise refuse("graph", sorted(map(str, graph.latents)), "without latent variables")
    made: nx.DiGraph[str] = nx.DiGraph()
    made.add_nodes_from(graph.nodes)
    linked: set[tuple[str, str]] = getattr(graph, "undirected_edges", set())
    made.add_edges_from(edge for edge in graph.edges if edge not in linked and edge[::-1] not in linked)
    for one, other in linked:
        _link(made, one, other)
    for i, j in made.edges:
        weight = graph.edges[i, j].get("weight") if graph.has_edge(i, j) else None
        if weight is not None:
            made.edges[i, j]["weight"] = weight
    for distribution in getattr(graph, "cpds", ()):
        if hasattr(distribution, "beta"):
            for cause, weight in zip(distribution.evidence, distribution.beta[1:], strict=True):
                made.edges[cause, distribution.variable]["weight"] = float(weight)
    return checked_graph(made, "graph")


def _linear(
    plain: nx.DiGraph[str],
    linked: Iterable[tuple[str, str]],
    sd: float | Mapping[str, float],
    intercepts: Mapping[str, float],
) -> Any:
    for pair in linked:
        raise refuse("sd", pair, "left out for a graph with undirected edges, which has no equations")
    for i, j, data in plain.edges(data=True):
        if "weight" not in data:
            raise refuse(f"weight of {i!r} -> {j!r}", None, "a finite number where sd is given")
    for name, values in (("sd", sd), ("intercepts", intercepts)):
        unknown = [node for node in values if node not in plain] if isinstance(values, Mapping) else []
        if unknown:
            raise refuse(name, unknown[0], "by the names of nodes")
    equations = []
    for node in plain:
        spread = positive(f"sd of {node!r}", sd.get(node) if isinstance(sd, Mapping) else sd)
        constant = real(f"intercept of {node!r}", intercepts.get(node, 0.0))
        causes = list(plain.predecessors(node))
        equations.append((node, [constant, *(plain.edges[cause, node]["weight"] for cause in causes)], spread, causes))
    made = _imported("pgmpy.models", "pgmpy").LinearGaussianBayesianNetwork()
    made.add_nodes_from(list(plain))
    made.add_edges_from(list(plain.edges))
    distribution = _imported("pgmpy.factors.continuous", "pgmpy").LinearGaussianCPD
    made.add_cpds(*(distribution(node, beta, std, evidence) for node, beta, std, evidence in equations))
    return made


def _simple(graph: nx.DiGraph[str]) -> nx.DiGraph[str]:
    """Return the graph's names and attributes; refuse what neither library's graphs can hold."""
    plain = checked_graph(graph, "graph")
    for i, j, data in plain.edges(data=True):
        if i == j or (not data.get("undirected") and plain.has_edge(j, i)):
            raise refuse("graph", (i, j), "without loops and without arrows both ways")
    return plain


def _link(graph: nx.DiGraph[str], one: str, other: str) -> None:
    graph.add_edge(one, other, undirected=True)
    graph.add_edge(other, one, undirected=True)


def _imported(module: str, library: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise InvalidParameter(
            f"{library} must be installed for its graphs: pip install 'privfcd[interchange]' ({error})"
        ) from error
