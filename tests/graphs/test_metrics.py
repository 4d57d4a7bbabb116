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
from privfcd.graphs import Pdag, compare, compare_pdags, to_networkx


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


@settings(max_examples=80, deadline=None)
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


STATES = ((0, 0), (1, 0), (0, 1), (1, 1))
# Costs of one pair that is in state a in the truth and b in the estimate: shd, reversal twice, entries, skeleton.
ONE_SIDED_ARROW, ONE_SIDED_LINE, REVERSED, HALF = (1, 1, 1, 1), (1, 1, 2, 1), (1, 2, 2, 0), (1, 1, 1, 0)
COSTS = {
    frozenset([(0, 0), (1, 0)]): ONE_SIDED_ARROW,
    frozenset([(0, 0), (0, 1)]): ONE_SIDED_ARROW,
    frozenset([(0, 0), (1, 1)]): ONE_SIDED_LINE,
    frozenset([(1, 0), (0, 1)]): REVERSED,
    frozenset([(1, 0), (1, 1)]): HALF,
    frozenset([(0, 1), (1, 1)]): HALF,
}


@settings(max_examples=80, deadline=None)
@given(graph_pairs())
def test_pdag_metrics_are_their_definitions(pair: tuple[NDArray[np.float64], NDArray[np.float64]]) -> None:
    truth, estimate = (matrix != 0 for matrix in pair)
    costs = np.zeros(4, dtype=int)
    states: list[tuple[tuple[int, int], tuple[int, int]]] = []
    for i, j in combinations(range(len(truth)), 2):
        a = (int(truth[i, j]), int(truth[j, i]))
        b = (int(estimate[i, j]), int(estimate[j, i]))
        states.append((a, b))
        costs += COSTS.get(frozenset([a, b]), (0, 0, 0, 0))
    result = compare_pdags(*pair)
    assert (result.shd, result.shd_reversal_twice, result.shd_entries, result.shd_skeleton) == tuple(costs)
    assert result.shd_entries == int((truth != estimate).sum())

    arrows = ((1, 0), (0, 1))

    def scores(hits: int, true: int, found: int) -> tuple[float, float, float]:
        over = [hits / found if found else 0.0, hits / true if true else 0.0]
        return over[0], over[1], 2 * hits / (true + found) if true + found else 0.0

    for kind, kept, hit in (
        ("edge", STATES[1:], lambda a, b: a == b),
        ("directed", arrows, lambda a, b: a == b),
        ("skeleton", STATES[1:], lambda a, b: True),
    ):
        expected = scores(
            sum(a in kept and b in kept and hit(a, b) for a, b in states),
            sum(a in kept for a, _ in states),
            sum(b in kept for _, b in states),
        )
        found = tuple(getattr(result, f"{kind}_{name}") for name in ("precision", "recall", "f1"))
        assert found == pytest.approx(expected, abs=1e-15), kind
    assert result.reversed == sum({a, b} == {(1, 0), (0, 1)} for a, b in states)
    assert result.overdirected == sum(a == (1, 1) and b in arrows for a, b in states)
    assert result.undirected == sum(a in arrows and b == (1, 1) for a, b in states)
    plain = compare(*pair)
    assert (result.shd, result.f1, result.skeleton_f1) == (plain.shd, plain.f1, plain.skeleton_f1)


def test_pdag_metrics_of_graphs_and_refusals() -> None:
    truth = Pdag.from_edges(3, directed=[(0, 1)], undirected=[(1, 2)])
    assert compare_pdags(truth, truth.matrix()) == compare_pdags(truth, truth)
    with pytest.raises(InvalidParameter, match="estimate must have 3 nodes, got 2"):
        compare_pdags(truth, np.zeros((2, 2)))
    with pytest.raises(InvalidParameter, match="truth must have no self-loop"):
        compare_pdags(np.eye(3), truth)
