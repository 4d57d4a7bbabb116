"""The graph type and the plain operations, against their definitions entry by entry."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privfcd.errors import InvalidParameter
from privfcd.graphs import Pdag, is_dag, mutilate, skeleton, topological_order, v_structures


@st.composite
def matrices(draw: st.DrawFn, most: int = 7) -> np.ndarray:
    p = draw(st.integers(1, most))
    matrix = np.array(draw(st.lists(st.booleans(), min_size=p * p, max_size=p * p))).reshape(p, p)
    np.fill_diagonal(matrix, False)
    return matrix


@given(matrices())
def test_matrix_and_edges_and_back(matrix: np.ndarray) -> None:
    graph = Pdag.from_matrix(matrix)
    assert (graph.matrix() == matrix).all()
    assert Pdag.from_edges(graph.p, graph.directed_edges(), graph.undirected_edges()) == graph
    assert Pdag.from_entries(graph.entries()) == graph
    assert Pdag(graph.parents, graph.neighbours) == graph
    assert hash(Pdag.from_matrix(3.5 * matrix)) == hash(graph)
    p = len(matrix)
    assert graph.directed_edges() == [(i, j) for j in range(p) for i in range(p) if matrix[i, j] and not matrix[j, i]]
    assert graph.undirected_edges() == [(i, j) for i, j in combinations(range(p), 2) if matrix[i, j] and matrix[j, i]]
    for i, j in combinations(range(p), 2):
        assert graph.adjacent[i] >> j & 1 == graph.adjacent[j] >> i & 1 == (matrix[i, j] or matrix[j, i])
        assert graph.children[i] >> j & 1 == graph.parents[j] >> i & 1


@given(matrices())
def test_skeleton_v_structures_and_order(matrix: np.ndarray) -> None:
    graph, p = Pdag.from_matrix(matrix), len(matrix)
    near = matrix | matrix.T
    assert (skeleton(matrix).matrix() == near).all()
    arrows = matrix & ~matrix.T
    assert v_structures(matrix) == {
        (i, j, k)
        for i, j in combinations(range(p), 2)
        for k in range(p)
        if arrows[i, k] and arrows[j, k] and not near[i, j]
    }
    acyclic = nx.is_directed_acyclic_graph(nx.DiGraph(arrows.astype(int)))
    order = topological_order(graph)
    assert (order is not None) == acyclic
    if order is not None:
        assert sorted(order) == list(range(p))
        assert all(order.index(i) < order.index(j) for i, j in graph.directed_edges())
    assert is_dag(graph) == (acyclic and not (matrix & matrix.T).any())


def test_over_64_nodes() -> None:
    matrix = np.triu(np.random.default_rng(0).random((100, 100)) < 0.1, 1)
    graph = Pdag.from_matrix(matrix)
    assert (graph.matrix() == matrix).all() and topological_order(graph) is not None


def test_mutilation_cuts_the_columns_of_the_targets() -> None:
    matrix = np.triu(np.ones((5, 5), dtype=bool), 1)
    cut = mutilate(matrix, [2, np.int64(4)]).matrix()
    matrix[:, [2, 4]] = False
    assert (cut == matrix).all()
    assert mutilate(matrix, []) == Pdag.from_matrix(matrix)


@pytest.mark.parametrize("target", [-1, 3, 1.0, True, "0"])
def test_a_target_must_be_a_node(target: object) -> None:
    with pytest.raises(InvalidParameter, match="targets must be nodes from 0 to 2"):
        mutilate(np.zeros((3, 3)), [target])  # type: ignore[list-item]


def test_refusals() -> None:
    with pytest.raises(InvalidParameter, match="graph must have no self-loop, got one at node 1"):
        skeleton(np.diag([0, 1, 0]))
    with pytest.raises(InvalidParameter, match="square"):
        Pdag.from_matrix(np.zeros((2, 3)))
    with pytest.raises(InvalidParameter, match="dag must be a DAG"):
        mutilate([[0, 1], [1, 0]], [0])
    with pytest.raises(InvalidParameter, match="dag must be a DAG"):
        mutilate([[0, 1, 0], [0, 0, 1], [1, 0, 0]], [0])
    with pytest.raises(InvalidParameter, match="symmetric"):
        Pdag((0, 0), (2, 0))
    with pytest.raises(InvalidParameter, match="at most one edge"):
        Pdag((2, 1), (0, 0))
    with pytest.raises(InvalidParameter, match="at most one edge"):
        Pdag((2, 0), (2, 1))
    with pytest.raises(InvalidParameter, match="node 0 must hold other nodes below 2"):
        Pdag((4, 0), (0, 0))
    with pytest.raises(InvalidParameter, match="node 1 must hold other nodes"):
        Pdag((0, 2), (0, 0))
    with pytest.raises(InvalidParameter, match="p >= 1"):
        Pdag((), ())
    with pytest.raises(InvalidParameter, match=r"undirected must join nodes from 0 to 1, got \(0, 2\)"):
        Pdag.from_edges(2, undirected=[(0, 2)])
