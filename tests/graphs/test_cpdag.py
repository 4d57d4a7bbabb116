"""CPDAGs, Meek's rules and consistent extensions: by brute force on all small DAGs, and against causal-learn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import combinations, permutations, product

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from privfcd.errors import InvalidParameter
from privfcd.graphs import (
    Pdag,
    common_graph,
    consistent_extension,
    dag_to_cpdag,
    equivalence_class,
    extensions,
    is_cpdag,
    is_dag,
    markov_equivalent,
    meek_closure,
    pdag_to_cpdag,
    skeleton,
    v_structures,
)

Matrix = NDArray[np.bool_]
Dags = Callable[[int], list[Matrix]]
Draw = Callable[[int, float, np.random.Generator], Matrix]


def separations(matrix: Matrix) -> frozenset[tuple[int, int, tuple[int, ...]]]:
    graph = nx.DiGraph([(int(i), int(j)) for i, j in np.argwhere(matrix)])
    graph.add_nodes_from(range(len(matrix)))
    found = []
    for i, j in combinations(range(len(matrix)), 2):
        rest = [k for k in range(len(matrix)) if k not in (i, j)]
        for chosen in product((False, True), repeat=len(rest)):
            given = tuple(k for k, taken in zip(rest, chosen, strict=True) if taken)
            if nx.is_d_separator(graph, {i}, {j}, set(given)):
                found.append((i, j, given))
    return frozenset(found)


def classes(dags: list[Matrix]) -> list[list[Matrix]]:
    """Markov equivalence classes: DAGs with the same d-separations."""
    groups: dict[object, list[Matrix]] = defaultdict(list)
    for matrix in dags:
        groups[separations(matrix)].append(matrix)
    return list(groups.values())


@pytest.mark.parametrize(("p", "dags", "number"), [(1, 1, 1), (2, 3, 2), (3, 25, 11), (4, 543, 185)])
def test_cpdags_are_the_classes_of_equal_d_separations(p: int, dags: int, number: int, every_dag: Dags) -> None:
    assert len(every_dag(p)) == dags
    groups = classes(every_dag(p))
    assert len(groups) == number
    seen = set()
    for group in groups:
        union = np.any(group, axis=0)
        for matrix in group:
            cpdag = dag_to_cpdag(matrix)
            assert (cpdag.matrix() == union).all()
            assert is_cpdag(cpdag) and is_cpdag(matrix) == (len(group) == 1)
            assert markov_equivalent(matrix, group[0])
        members = list(equivalence_class(cpdag))
        assert set(members) == {Pdag.from_matrix(m) for m in group} and len(members) == len(group)
        assert common_graph(members) == cpdag
        seen.add(cpdag)
    assert len(seen) == number


def test_every_graph_on_three_nodes(every_dag: Dags, orientations: Callable[[Matrix], Iterator[Matrix]]) -> None:
    cpdags = {dag_to_cpdag(matrix) for matrix in every_dag(3)}
    for entries in product((False, True), repeat=6):
        matrix = np.zeros((3, 3), dtype=bool)
        matrix[~np.eye(3, dtype=bool)] = entries
        wanted = v_structures(matrix)
        expected = {Pdag.from_matrix(m) for m in orientations(matrix) if v_structures(m) == wanted}
        assert set(extensions(matrix).members()) == expected
        found = consistent_extension(matrix)
        assert found in expected if expected else found is None
        assert is_cpdag(matrix) == (Pdag.from_matrix(matrix) in cpdags)
        for dag in every_dag(3):
            assert extensions(matrix).contains(dag) == (Pdag.from_matrix(dag) in expected)
        agreed = extensions(matrix).graph()
        assert agreed == (common_graph(expected) if expected else None)
        completed = pdag_to_cpdag(matrix)
        assert completed == (dag_to_cpdag(next(iter(expected))) if expected else None)


def partly_directed(matrix: Matrix, share: float, generator: np.random.Generator) -> Matrix:
    """Undirect each edge with a probability, whatever becomes of the v-structures."""
    flips = matrix & (generator.random(matrix.shape) < share)
    return matrix | flips.T


def test_extensions_of_random_graphs(orientations: Callable[[Matrix], Iterator[Matrix]], random_dag: Draw) -> None:
    generator = np.random.default_rng(3)
    none = 0
    for _ in range(200):
        matrix = partly_directed(random_dag(5, 2.5, generator), 0.6, generator)
        wanted = v_structures(matrix)
        expected = {Pdag.from_matrix(m) for m in orientations(matrix) if v_structures(m) == wanted}
        members = list(extensions(matrix).members())
        assert set(members) == expected and len(members) == len(expected)
        found = extensions(matrix).graph()
        assert found == (common_graph(expected) if expected else None)
        none += not expected
        for dag in orientations(matrix):
            assert extensions(matrix).contains(dag) == (Pdag.from_matrix(dag) in expected)
    assert 20 < none < 180


def test_rules_complete_v_structures_to_the_cpdag(every_dag: Dags, random_dag: Draw) -> None:
    generator = np.random.default_rng(4)
    drawn = [random_dag(p, degree, generator) for p in (8, 15, 30, 60) for degree in (2, 4, 7) for _ in range(10)]
    for matrix in [*every_dag(4), *drawn]:
        into = {(i, k) for first, second, k in v_structures(matrix) for i in (first, second)}
        start = skeleton(matrix)
        pattern = Pdag.from_edges(
            start.p, into, [(i, j) for i, j in start.undirected_edges() if not {(i, j), (j, i)} & into]
        )
        cpdag = dag_to_cpdag(matrix)
        assert meek_closure(pattern) == cpdag == meek_closure(cpdag)
        assert is_cpdag(pattern) == (pattern == cpdag)


def test_rules_are_sound_and_complete_with_background(every_dag: Dags, random_dag: Draw) -> None:
    # On all 4-node DAGs with every set of at most two known arrows, so that rule 4 is needed; then larger ones.
    cases: list[tuple[Matrix, list[tuple[int, int]]]] = []
    for matrix in every_dag(4):
        open_arrows = [(i, j) for i, j in Pdag.from_matrix(matrix).directed_edges()]
        cases += [(matrix, list(known)) for size in (1, 2) for known in combinations(open_arrows, size)]
    generator = np.random.default_rng(5)
    for _ in range(100):
        matrix = random_dag(10, 5, generator)
        edges = Pdag.from_matrix(matrix).directed_edges()
        picked = generator.permutation(len(edges))[:3]
        cases.append((matrix, [edges[k] for k in picked]))
    for matrix, known in cases:
        cpdag = dag_to_cpdag(matrix)
        closed = meek_closure(cpdag, known)
        members = extensions(cpdag)
        for i, j in closed.undirected_edges():
            assert members.member([*known, (i, j)]) and members.member([*known, (j, i)])
        for i, j in closed.directed_edges():
            assert matrix[i, j]
            assert members.member([*known, (j, i)]) is None


def test_rule_four() -> None:
    # Diamond a - d, a - c, a - b, d - c, c - b: with d -> c -> b known, a -> b follows by rule 4 alone.
    a, b, c, d = range(4)
    graph = Pdag.from_edges(4, undirected=[(a, d), (a, c), (a, b), (d, c), (c, b)])
    closed = meek_closure(graph, [(d, c), (c, b)])
    assert (a, b) in closed.directed_edges()
    assert closed.undirected_edges() == [(a, c), (a, d)]


@pytest.mark.parametrize("order", list(permutations(range(5))))
def test_rule_four_after_an_arrow_that_came_late(order: tuple[int, ...]) -> None:
    # x -> d directs d - c by rule 1, and only then a -> b follows from d -> c -> b by rule 4.
    a, b, c, d, x = order
    graph = Pdag.from_edges(5, undirected=[(a, d), (a, c), (a, b), (d, c), (c, b), (x, d), (x, a)])
    closed = meek_closure(graph, [(c, b), (x, d)])
    assert {(d, c), (a, b)} <= set(closed.directed_edges())
    assert meek_closure(closed) == closed


def test_a_random_order_of_background_gives_the_same(random_dag: Draw) -> None:
    generator = np.random.default_rng(6)
    for _ in range(50):
        matrix = random_dag(12, 5, generator)
        cpdag, known = dag_to_cpdag(matrix), Pdag.from_matrix(matrix).directed_edges()
        half = [known[k] for k in generator.permutation(len(known))[: len(known) // 4]]
        assert meek_closure(cpdag, half) == meek_closure(cpdag, half[::-1])


def test_against_causal_learn(random_dag: Draw) -> None:
    conversion = pytest.importorskip("causallearn.utils.DAG2CPDAG")
    from causallearn.graph.Edge import Edge
    from causallearn.graph.Endpoint import Endpoint
    from causallearn.graph.GeneralGraph import GeneralGraph
    from causallearn.graph.GraphNode import GraphNode

    generator = np.random.default_rng(7)
    for trial in range(300):
        p = int(generator.integers(2, 31))
        matrix = random_dag(p, generator.uniform(0.5, 4 if p > 12 else 6), generator)
        nodes = [GraphNode(str(k)) for k in range(p)]
        graph = GeneralGraph(nodes)
        for i, j in np.argwhere(matrix):
            graph.add_edge(Edge(nodes[i], nodes[j], Endpoint.TAIL, Endpoint.ARROW))
        theirs = conversion.dag2cpdag(graph).graph  # [j, i] = 1 and [i, j] = -1 is i -> j; both -1 is i - j
        entries = (theirs == -1) & ((theirs.T == 1) | (theirs.T == -1))
        assert (dag_to_cpdag(matrix).matrix() == entries).all(), trial


def test_members_and_extensions_of_larger_graphs(random_dag: Draw) -> None:
    generator = np.random.default_rng(8)
    for p in (20, 40, 100):
        for degree in (2, 5):
            matrix = random_dag(p, degree, generator)
            cpdag = dag_to_cpdag(matrix)
            dag = consistent_extension(cpdag)
            assert dag is not None and is_dag(dag) and markov_equivalent(dag, matrix)
            assert extensions(cpdag).graph() == cpdag and is_cpdag(cpdag)
            assert extensions(cpdag).contains(matrix)
            first = [dag for dag, _ in zip(equivalence_class(cpdag), range(20), strict=False)]
            assert len(set(first)) == len(first)
            assert all(dag_to_cpdag(dag) == cpdag for dag in first)


def test_refusals() -> None:
    cycle = np.roll(np.eye(3), 1, axis=1)
    assert consistent_extension(cycle) is None and pdag_to_cpdag(cycle) is None and not is_cpdag(cycle)
    square = Pdag.from_edges(4, undirected=[(0, 1), (1, 2), (2, 3), (0, 3)])
    assert consistent_extension(square) is None and extensions(square).graph() is None
    assert list(extensions(square).members()) == []
    with pytest.raises(InvalidParameter, match="dag must be a DAG"):
        dag_to_cpdag(cycle)
    with pytest.raises(InvalidParameter, match="dag must be a DAG"):
        dag_to_cpdag(square)
    with pytest.raises(InvalidParameter, match="cpdag must be a CPDAG"):
        equivalence_class([[0, 1], [0, 0]])
    with pytest.raises(InvalidParameter, match="against a direction"):
        meek_closure([[0, 1], [0, 0]], [(1, 0)])
    with pytest.raises(InvalidParameter, match=r"on edges of the graph, got \(0, 2\)"):
        meek_closure([[0, 1, 0], [1, 0, 0], [0, 0, 0]], [(0, 2)])
    with pytest.raises(InvalidParameter, match="on edges of the graph"):
        meek_closure([[0, 1], [1, 0]], [(0, -1)])
    with pytest.raises(InvalidParameter, match="second must have 2 nodes, got 3"):
        markov_equivalent(np.zeros((2, 2)), np.zeros((3, 3)))
    with pytest.raises(InvalidParameter, match="at least one DAG"):
        common_graph([])
    with pytest.raises(InvalidParameter, match=r"dags\[1\] has another"):
        common_graph([np.zeros((2, 2)), [[0, 1], [0, 0]]])
