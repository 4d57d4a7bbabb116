"""Cycles and the projection to a DAG, against networkx and against the rule carried out word for word."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privfcd.errors import InvalidParameter
from privfcd.graphs import find_cycle, from_networkx, is_acyclic, project_to_dag, to_networkx


@st.composite
def weight_matrices(draw: st.DrawFn, loops: bool = True) -> NDArray[np.float64]:
    d = draw(st.integers(1, 7))
    # Few different values, so that ties are common.
    values = st.sampled_from([0.0, 0.0, 0.0, 0.1, -0.1, 0.3, -0.5, 0.5, 1.0, -2.0])
    matrix = np.array(draw(st.lists(values, min_size=d * d, max_size=d * d))).reshape(d, d)
    if not loops:
        np.fill_diagonal(matrix, 0.0)
    return matrix


def digraph(matrix: NDArray[np.float64]) -> nx.DiGraph:
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(matrix)))
    graph.add_edges_from((int(i), int(j)) for i, j in np.argwhere(matrix))
    return graph


def edges_by_rule(matrix: NDArray[np.float64]) -> list[tuple[int, int, float]]:
    listed = [(int(i), int(j), float(matrix[i, j])) for i, j in np.argwhere(matrix)]
    return sorted(listed, key=lambda edge: (abs(edge[2]), edge[0], edge[1]))


def project_word_for_word(matrix: NDArray[np.float64], threshold: float) -> tuple[NDArray[np.float64], list]:
    """Look for the smallest edge on a cycle from the start after every drop."""
    left = np.where(np.abs(matrix) <= threshold, 0.0, matrix)
    dropped = []
    while not nx.is_directed_acyclic_graph(digraph(left)):
        graph = digraph(left)
        on_cycle = [e for e in edges_by_rule(left) if nx.has_path(graph, e[1], e[0])]
        dropped.append(on_cycle[0])
        left[on_cycle[0][:2]] = 0.0
    return left, dropped


@settings(deadline=None)
@given(weight_matrices())
def test_is_acyclic_and_find_cycle_agree_with_networkx(matrix: NDArray[np.float64]) -> None:
    acyclic = nx.is_directed_acyclic_graph(digraph(matrix))
    assert is_acyclic(matrix) is acyclic
    cycle = find_cycle(matrix)
    assert (cycle is None) is acyclic
    if cycle is not None:
        assert len(set(cycle)) == len(cycle)
        assert all(matrix[a, b] != 0 for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True))
        assert find_cycle(matrix) == cycle


@settings(max_examples=80, deadline=None)
@given(weight_matrices(), st.sampled_from([0.0, 0.1, 0.3, 0.7]))
def test_projection_is_the_rule_word_for_word(matrix: NDArray[np.float64], threshold: float) -> None:
    before = matrix.copy()
    result = project_to_dag(matrix, threshold)
    left, dropped = project_word_for_word(matrix, threshold)
    assert np.array_equal(result.weights, left)
    assert list(result.dropped_for_cycles) == dropped
    assert np.array_equal(matrix, before)
    small = np.where(np.abs(matrix) <= threshold, matrix, 0.0)
    assert list(result.dropped_small) == edges_by_rule(small)


@settings(deadline=None)
@given(weight_matrices(), st.sampled_from([0.0, 0.1, 0.3]))
def test_projection_is_acyclic_lossless_in_its_report_and_idempotent(
    matrix: NDArray[np.float64], threshold: float
) -> None:
    result = project_to_dag(matrix, threshold)
    assert is_acyclic(result.weights)
    restored = result.weights.copy()
    for i, j, weight in result.dropped_small + result.dropped_for_cycles:
        assert restored[i, j] == 0.0
        restored[i, j] = weight
    assert np.array_equal(restored, matrix)
    again = project_to_dag(result.weights, threshold)
    assert np.array_equal(again.weights, result.weights)
    assert again.dropped_small == again.dropped_for_cycles == ()


@settings(deadline=None)
@given(weight_matrices())
def test_projection_keeps_what_raising_the_threshold_keeps(matrix: NDArray[np.float64]) -> None:
    raised = matrix.copy()
    for level in np.unique(np.abs(matrix)):
        raised[np.abs(raised) <= level] = 0.0
        if is_acyclic(raised):
            break
    kept = project_to_dag(matrix, 0.0).weights
    assert np.array_equal(kept[raised != 0], raised[raised != 0])


def test_projection_keeps_small_edges_off_cycles() -> None:
    weights = np.zeros((4, 4))
    weights[0, 1], weights[1, 0], weights[2, 3], weights[3, 0] = 2.0, -1.0, 0.4, 0.3
    result = project_to_dag(weights, 0.3)
    assert result.dropped_small == ((3, 0, 0.3),)
    assert result.dropped_for_cycles == ((1, 0, -1.0),)
    assert result.weights[2, 3] == 0.4 and result.weights[0, 1] == 2.0


def test_projection_agrees_with_the_rule_on_larger_graphs() -> None:
    generator = np.random.default_rng(5)
    for density in (0.05, 0.2, 0.6):
        matrix = generator.normal(size=(25, 25)) * (generator.random((25, 25)) < density)
        left, dropped = project_word_for_word(matrix, 0.2)
        result = project_to_dag(matrix, 0.2)
        assert np.array_equal(result.weights, left)
        assert list(result.dropped_for_cycles) == dropped


@settings(deadline=None)
@given(weight_matrices(loops=False), st.randoms())
def test_networkx_round_trip_in_any_order(matrix: NDArray[np.float64], random: object) -> None:
    names = [f"v {k}" for k in range(len(matrix))]
    graph = to_networkx(matrix, names)
    assert list(graph) == names
    assert {(a, b): w for a, b, w in graph.edges(data="weight")} == {
        (names[i], names[j]): matrix[i, j] for i, j in np.argwhere(matrix)
    }
    order = list(range(len(matrix)))
    random.shuffle(order)  # type: ignore[attr-defined]
    assert np.array_equal(from_networkx(graph, [names[k] for k in order]), matrix[np.ix_(order, order)])


def test_from_networkx_takes_a_missing_weight_as_one() -> None:
    assert from_networkx(nx.DiGraph([("a", "b")]), ["a", "b"])[0, 1] == 1.0


@pytest.mark.parametrize(
    "matrix",
    [
        np.zeros((2, 3)),
        np.zeros(4),
        np.zeros((0, 0)),
        [[0, np.nan], [0, 0]],
        [[0, np.inf], [0, 0]],
        [[0, 1j], [0, 0]],
        [["a", "b"], ["c", "d"]],
        [[0, 1], [0]],
        None,
    ],
)
def test_bad_matrices_are_refused(matrix: object) -> None:
    for call in (
        is_acyclic,
        find_cycle,
        lambda m: project_to_dag(m, 0.3),
        lambda m: to_networkx(m, ["a", "b"]),
    ):
        with pytest.raises(InvalidParameter, match=r"matrix|weights"):
            call(matrix)  # type: ignore[arg-type]


@pytest.mark.parametrize("threshold", [-0.1, np.nan, np.inf, "0.3", None, True])
def test_bad_thresholds_are_refused(threshold: object) -> None:
    with pytest.raises(InvalidParameter, match="threshold"):
        project_to_dag(np.eye(2), threshold)  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [["a"], ["a", "a"], ["a", ""], ["a", 1], "ab", ["a", "b", "c"]])
def test_bad_names_are_refused(columns: object) -> None:
    with pytest.raises(InvalidParameter, match="columns"):
        to_networkx(np.zeros((2, 2)), columns)  # type: ignore[arg-type]


def test_graphs_that_a_matrix_cannot_carry_are_refused() -> None:
    graph = nx.DiGraph([("a", "b")])
    with pytest.raises(InvalidParameter, match=r"not nodes: \['c'\], not named: \['b'\]"):
        from_networkx(graph, ["a", "c"])
    for other in (nx.Graph([("a", "b")]), nx.MultiDiGraph([("a", "b")]), np.zeros((2, 2))):
        with pytest.raises(InvalidParameter, match="DiGraph"):
            from_networkx(other, ["a", "b"])  # type: ignore[arg-type]
    for weight in (0.0, np.nan, "1", None):
        graph.edges["a", "b"]["weight"] = weight
        with pytest.raises(InvalidParameter, match="weight of 'a' -> 'b'"):
            from_networkx(graph, ["a", "b"])
