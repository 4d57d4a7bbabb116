"""Metrics, against their definitions counted edge by edge."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privfcd.errors import InvalidParameter
from privfcd.graphs import compare, to_networkx


@st.composite
def graph_pairs(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    d = draw(st.integers(1, 6))
    values = st.sampled_from([0.0, 0.0, 1.0, -0.7])
    both = []
    for _ in range(2):
        matrix = np.array(draw(st.lists(values, min_size=d * d, max_size=d * d))).reshape(d, d)
        np.fill_diagonal(matrix, 0.0)
        both.append(matrix)
    return both[0], both[1]


def edge_set(matrix: NDArray[np.float64]) -> set[tuple[int, int]]:
    d = len(matrix)
    return {(i, j) for i, j in permutations(range(d), 2) if matrix[i, j] != 0}


def v_structures(edges: set[tuple[int, int]], d: int) -> set[tuple[int, int, int]]:
    found = set()
    for k in range(d):
        for i, j in combinations([node for node in range(d) if node != k], 2):
            into = (i, k) in edges and (j, k) in edges
            back = (k, i) in edges or (k, j) in edges
            if into and not back and (i, j) not in edges and (j, i) not in edges:
                found.add((i, j, k))
    return found


def by_definition(truth: NDArray[np.float64], estimate: NDArray[np.float64]) -> dict[str, Any]:
    d = len(truth)
    true, found = edge_set(truth), edge_set(estimate)
    right = [e for e in found if e in true]
    pairs_true = {frozenset(e) for e in true}
    pairs_found = {frozenset(e) for e in found}
    shared = pairs_true & pairs_found
    shd = 0
    for i, j in combinations(range(d), 2):
        state_true = ((i, j) in true, (j, i) in true)
        state_found = ((i, j) in found, (j, i) in found)
        shd += state_true != state_found
    v_true, v_found = v_structures(true, d), v_structures(found, d)

    def over(a: float, b: float) -> float:
        return a / b if b else 0.0

    return {
        "edges_true": len(true),
        "edges": len(found),
        "shd": shd,
        "tpr": over(len(right), len(true)),
        "recall": over(len(right), len(true)),
        "fdr": len([e for e in found if e not in true]) / max(len(found), 1),
        "precision": over(len(right), len(found)),
        "f1": over(2 * len(right), len(true) + len(found)),
        "directed_hits": len(right),
        "undirected_hits": len(shared),
        "skeleton_f1": over(2 * len(shared), len(pairs_true) + len(pairs_found)),
        "v_structures_true": len(v_true),
        "v_structures_found": len(v_found),
        "v_structures_right": len(v_true & v_found),
    }


@settings(max_examples=200, deadline=None)
@given(graph_pairs())
def test_metrics_are_their_definitions(pair: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
    result = compare(*pair)
    expected = by_definition(*pair)
    assert set(expected) == set(result.__dataclass_fields__)
    for name, value in expected.items():
        assert getattr(result, name) == pytest.approx(value, abs=1e-15), name


def test_metrics_are_their_definitions_on_larger_graphs() -> None:
    generator = np.random.default_rng(0)
    for _ in range(10):
        truth, estimate = (generator.random((2, 14, 14)) < 0.15).astype(float)
        np.fill_diagonal(truth, 0)
        np.fill_diagonal(estimate, 0)
        result = compare(truth, estimate)
        assert by_definition(truth, estimate) == pytest.approx(vars(result))


@settings(deadline=None)
@given(graph_pairs(), st.randoms())
def test_graphs_are_aligned_by_name_and_give_what_matrices_give(
    pair: tuple[NDArray[np.float64], NDArray[np.float64]], random: Any
) -> None:
    names = [f"v{k}" for k in range(len(pair[0]))]
    order = list(range(len(names)))
    random.shuffle(order)
    shuffled = to_networkx(pair[1][np.ix_(order, order)], [names[k] for k in order])
    assert compare(to_networkx(pair[0], names), shuffled) == compare(*pair)


@settings(deadline=None)
@given(graph_pairs())
def test_laws(pair: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
    forth, back = compare(*pair), compare(pair[1], pair[0])
    assert forth.shd == back.shd and forth.f1 == back.f1
    assert forth.precision == back.recall
    itself = compare(pair[0], pair[0])
    assert itself.shd == 0 and itself.fdr == 0.0
    assert itself.tpr == itself.f1 == itself.skeleton_f1 == float(itself.edges > 0)
    empty = compare(pair[0], np.zeros_like(pair[0]))
    assert empty.fdr == empty.precision == empty.tpr == 0.0
    assert forth.directed_hits <= forth.edges
    assert forth.v_structures_right <= min(forth.v_structures_true, forth.v_structures_found)


def test_a_reversal_costs_one_and_is_a_false_discovery() -> None:
    truth = np.array([[0, 1.5, 0], [0, 0, -1], [0, 0, 0]])
    result = compare(truth, truth.T)
    assert (result.shd, result.fdr, result.tpr) == (2, 1.0, 0.0)
    assert (result.undirected_hits, result.skeleton_f1) == (2, 1.0)


def test_a_cyclic_truth_is_accepted() -> None:
    truth = np.roll(np.eye(3), 1, axis=1)
    estimate = truth.copy()
    estimate[2, 0] = 0
    result = compare(truth, estimate)
    assert (result.edges_true, result.edges, result.shd, result.fdr) == (3, 2, 1, 0.0)


def test_a_graph_edge_counts_whatever_its_weight() -> None:
    truth = nx.DiGraph([("a", "b")])
    estimate = nx.DiGraph()
    estimate.add_edge("a", "b", weight=0.0)
    assert compare(truth, estimate).shd == 0


def test_what_cannot_be_compared_is_refused() -> None:
    graph, matrix = nx.DiGraph([("a", "b")]), np.zeros((2, 2))
    with pytest.raises(InvalidParameter, match="two matrices or two"):
        compare(graph, matrix)
    with pytest.raises(InvalidParameter, match="two matrices or two"):
        compare(matrix, graph)
    with pytest.raises(InvalidParameter, match=r"missing \['b'\], extra \['c'\]"):
        compare(graph, nx.DiGraph([("a", "c")]))
    with pytest.raises(InvalidParameter, match=r"estimate must be a networkx\.DiGraph"):
        compare(graph, nx.Graph([("a", "b")]))
    with pytest.raises(InvalidParameter, match="shape"):
        compare(matrix, np.zeros((3, 3)))
    with pytest.raises(InvalidParameter, match="estimate must have no self-loop, got one at node 1"):
        compare(matrix, np.diag([0.0, 1.0]))
    with pytest.raises(InvalidParameter, match="truth must hold finite"):
        compare([[0, np.nan], [0, 0]], matrix)
    with pytest.raises(InvalidParameter, match="at least one node"):
        compare(nx.DiGraph(), nx.DiGraph())
