"""Graphs of causal-learn and pgmpy: there and back, judged by those libraries' own functions too."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
import pytest

from privfcd.errors import InvalidParameter
from privfcd.graphs import compare, dag_to_cpdag, to_networkx
from privfcd.graphs.adapters import from_causal_learn, from_pgmpy, to_causal_learn, to_pgmpy
from privfcd.graphs.pdag import pdag_to_networkx

NAMES = ["p44/42", "two words", "Größe µ", "1", "<b>", "X6"]
Draw = Callable[[int, float, np.random.Generator], Any]


def content(graph: nx.DiGraph) -> tuple[list[str], dict[tuple[str, str], Any]]:
    return list(graph), {(i, j): {k: v for k, v in d.items() if v is not False} for i, j, d in graph.edges(data=True)}


def pairs_of(random_dag: Draw, number: int = 12) -> list[tuple[nx.DiGraph, nx.DiGraph]]:
    """Return weighted DAGs and their CPDAGs."""
    generator = np.random.default_rng(5)
    made = []
    for _ in range(number):
        matrix = random_dag(len(NAMES), 2.5, generator)
        cpdag = pdag_to_networkx(dag_to_cpdag(matrix), NAMES)
        made.append((to_networkx(matrix * generator.uniform(0.5, 2, matrix.shape), NAMES), cpdag))
    return made


def test_causal_learn_there_and_back(random_dag: Draw) -> None:
    pytest.importorskip("causallearn")
    for dag, cpdag in pairs_of(random_dag):
        for graph in (dag, cpdag):
            back = from_causal_learn(to_causal_learn(graph))
            names, edges = content(graph)
            bare = {ends: {k: v for k, v in data.items() if k != "weight"} for ends, data in edges.items()}
            assert content(back) == (names, bare)


def test_causal_learn_agrees_on_cpdags_and_distances(random_dag: Draw) -> None:
    pytest.importorskip("causallearn")
    from causallearn.graph.SHD import SHD
    from causallearn.utils.DAG2CPDAG import dag2cpdag

    pairs = pairs_of(random_dag)
    for dag, cpdag in pairs:
        assert content(from_causal_learn(dag2cpdag(to_causal_learn(dag)))) == content(cpdag)
    for (one, first), (other, second) in combinations(pairs[:6], 2):
        for truth, estimate in ((one, other), (first, second), (one, second)):
            assert SHD(to_causal_learn(truth), to_causal_learn(estimate)).get_shd() == compare(truth, estimate).shd


def test_results_of_causal_learn_are_read() -> None:
    pytest.importorskip("causallearn")
    from causallearn.search.ConstraintBased.PC import pc

    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2, 400))
    rows = np.column_stack([x, y, x + y + 0.3 * generator.normal(size=400)])
    result = pc(rows, node_names=["x", "y", "z"], show_progress=False)
    expected = {("x", "z"): {}, ("y", "z"): {}}
    assert content(from_causal_learn(result)) == (["x", "y", "z"], expected)
    assert content(from_causal_learn({"G": result.G, "score": 0.0}))[1] == expected


def test_a_dag_of_causal_learn_keeps_its_names() -> None:
    """Its class has a `get_node_names` of its own, which returns functions."""
    pytest.importorskip("causallearn")
    from causallearn.graph.Dag import Dag
    from causallearn.graph.GraphNode import GraphNode

    nodes = [GraphNode("dose"), GraphNode("pressure")]
    made = Dag(nodes)
    made.add_directed_edge(*nodes)
    assert list(from_causal_learn(made)) == ["dose", "pressure"]
    assert list(from_causal_learn(made).edges) == [("dose", "pressure")]


def test_other_ends_of_causal_learn_are_refused() -> None:
    pytest.importorskip("causallearn")
    from causallearn.graph.Edge import Edge
    from causallearn.graph.Endpoint import Endpoint
    from causallearn.graph.GeneralGraph import GeneralGraph
    from causallearn.graph.GraphNode import GraphNode

    for ends in (
        (Endpoint.ARROW, Endpoint.ARROW),
        (Endpoint.CIRCLE, Endpoint.ARROW),
        (Endpoint.CIRCLE, Endpoint.CIRCLE),
    ):
        nodes = [GraphNode("a"), GraphNode("b")]
        graph = GeneralGraph(nodes)
        graph.add_edge(Edge(*nodes, *ends))
        with pytest.raises(InvalidParameter, match="between 'a' and 'b' are the marks"):
            from_causal_learn(graph)
    for wrong in (nx.DiGraph(), {"H": 1}, None, 3):
        with pytest.raises(InvalidParameter, match="GeneralGraph"):
            from_causal_learn(wrong)


def test_pgmpy_there_and_back(random_dag: Draw) -> None:
    pytest.importorskip("pgmpy")
    from pgmpy.base import DAG, PDAG

    for dag, cpdag in pairs_of(random_dag):
        assert content(from_pgmpy(to_pgmpy(dag))) == content(dag) and isinstance(to_pgmpy(dag), DAG)
        names, edges = content(from_pgmpy(to_pgmpy(cpdag)))
        assert (set(names), edges) == (set(cpdag), content(cpdag)[1])
        assert isinstance(to_pgmpy(cpdag), PDAG if any(u for *_, u in cpdag.edges(data="undirected")) else DAG)
    weighted: nx.DiGraph = nx.DiGraph()
    weighted.add_edge("a", "b", undirected=True, weight=0.5)
    weighted.add_edge("b", "a", undirected=True, weight=0.5)
    weighted.add_node("alone")
    back = from_pgmpy(to_pgmpy(weighted))
    assert set(back) == set(weighted) and content(back)[1] == content(weighted)[1]


def test_pgmpy_agrees_on_cpdags_and_distances(random_dag: Draw) -> None:
    pytest.importorskip("pgmpy")
    from pgmpy.metrics import SHD

    pairs = pairs_of(random_dag)
    for dag, cpdag in pairs:
        found = from_pgmpy(to_pgmpy(dag).to_pdag())
        assert {e: d.get("undirected", False) for e, d in content(found)[1].items()} == {
            e: d.get("undirected", False) for e, d in content(cpdag)[1].items()
        }
    for (one, _), (other, _) in combinations(pairs[:6], 2):
        assert SHD()(true_causal_graph=to_pgmpy(one), est_causal_graph=to_pgmpy(other)) == compare(one, other).shd


def test_a_linear_gaussian_network_has_the_graphs_covariance(random_dag: Draw) -> None:
    pytest.importorskip("pgmpy")
    from pgmpy.models import LinearGaussianBayesianNetwork

    from privfcd.graphs import from_networkx

    sds = {name: 0.5 + k for k, name in enumerate(NAMES)}
    means = {"X6": 2.0, "1": -1.0}
    for dag, _ in pairs_of(random_dag, 4):
        model = to_pgmpy(dag, sd=sds, intercepts=means)
        assert isinstance(model, LinearGaussianBayesianNetwork) and model.check_model()
        order = list(nx.topological_sort(model))
        weights = from_networkx(dag, order)
        total = np.linalg.inv(np.eye(len(order)) - weights)
        mean, covariance = model.to_joint_gaussian()
        expected = total.T @ np.diag([sds[name] ** 2 for name in order]) @ total
        np.testing.assert_allclose(covariance, expected, atol=0.02 * expected.max())
        np.testing.assert_allclose(mean, total.T @ [means.get(name, 0.0) for name in order], atol=0.01)
        assert content(from_pgmpy(model)) == content(dag)
        assert {cpd.std for cpd in to_pgmpy(dag, sd=1.5).get_cpds()} == {1.5}


def test_what_pgmpy_cannot_hold_is_refused() -> None:
    pytest.importorskip("pgmpy")
    from pgmpy.base import DAG

    chain = nx.DiGraph()
    chain.add_edge("a", "b", weight=1.0)
    chain.add_edge("b", "c")
    linked = nx.DiGraph()
    linked.add_edge("a", "b", undirected=True)
    linked.add_edge("b", "a", undirected=True)
    for graph, options, message in (
        (nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a")]), {}, "without directed cycles"),
        (nx.DiGraph([("a", "b"), ("b", "a")]), {}, "arrows both ways"),
        (nx.DiGraph([("a", "a")]), {}, "without loops"),
        (linked, {"sd": 1.0}, "no equations"),
        (chain, {"sd": 1.0}, "weight of 'b' -> 'c'"),
        (nx.DiGraph(), {"sd": {"z": 1.0}}, "by the names of nodes"),
        (linked, {"intercepts": {}}, "together with sd"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            to_pgmpy(graph, **options)
    chain.edges["b", "c"]["weight"] = 2.0
    for options in ({"sd": 0}, {"sd": {"a": 1.0}}, {"sd": 1.0, "intercepts": {"a": float("nan")}}):
        with pytest.raises(InvalidParameter, match=r"sd of|intercept of"):
            to_pgmpy(chain, **options)  # type: ignore[arg-type]
    for wrong in (nx.DiGraph(), None):
        with pytest.raises(InvalidParameter, match="DAG or PDAG"):
            from_pgmpy(wrong)
    with pytest.raises(InvalidParameter, match="latent"):
        from_pgmpy(DAG([("a", "b")], latents={"a"}))
    with pytest.raises(InvalidParameter, match="node names"):
        from_pgmpy(DAG([(1, 2)]))


def test_a_library_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("causallearn.graph.GraphNode", "pgmpy.base"):
        monkeypatch.setitem(sys.modules, module, None)
    graph = nx.DiGraph([("a", "b")])
    for call in (lambda: to_causal_learn(graph), lambda: to_pgmpy(graph), lambda: from_pgmpy(graph)):
        with pytest.raises(InvalidParameter, match=r"pip install 'privfcd\[interchange\]'"):
            call()
