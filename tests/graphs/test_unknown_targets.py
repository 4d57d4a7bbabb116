"""Classes of unknown and known targets, transfer and votes: against listing all DAGs and all targets."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from privfcd.errors import InvalidParameter
from privfcd.graphs import (
    Pdag,
    common_cpdag,
    common_graph,
    dag_to_cpdag,
    directed_consensus,
    equivalence_class,
    extensions,
    is_cpdag,
    known_target_class,
    meek_closure,
    mutilate,
    party_cpdags,
    phi_cpdag,
    skeleton_consensus,
    transfer,
    undirected_consensus,
    unknown_target_class,
    v_structures,
    vote,
)

Matrix = NDArray[np.bool_]
Dags = Callable[[int], list[Matrix]]
Draw = Callable[[int, float, np.random.Generator], Matrix]
Signature = tuple[bytes, frozenset[tuple[int, int, int]]]

CASES = json.loads((Path(__file__).parent / "phi_cases.json").read_text())


def read(text: str, p: int) -> Pdag:
    edges = text.split()
    ends = [(edge[1], (int(edge[0]), int(edge[2]))) for edge in edges]
    return Pdag.from_edges(p, [e for kind, e in ends if kind == ">"], [e for kind, e in ends if kind == "-"])


def signature(matrix: Matrix) -> Signature:
    """What fixes a Markov equivalence class (Verma and Pearl): skeleton and v-structures."""
    return (matrix | matrix.T).tobytes(), v_structures(matrix)


def cut(matrix: Matrix, targets: tuple[int, ...]) -> Matrix:
    left = matrix.copy()
    left[:, list(targets)] = False
    return left


def subsets(p: int) -> list[tuple[int, ...]]:
    return list(chain.from_iterable(combinations(range(p), size) for size in range(p + 1)))


class Listing:
    """Unknown-target classes by definition: every DAG of a set, cut at every set of targets."""

    def __init__(self, dags: list[Matrix]) -> None:
        self.cuts = {Pdag.from_matrix(m): {s: signature(cut(m, s)) for s in subsets(len(m))} for m in dags}
        self.groups: dict[Signature, list[Pdag]] = defaultdict(list)
        for matrix in dags:
            self.groups[signature(matrix)].append(Pdag.from_matrix(matrix))
        self.reached = {dag: set(cuts.values()) for dag, cuts in self.cuts.items()}

    def unknown(self, dag: Pdag, targets: list[tuple[int, ...]]) -> list[Pdag]:
        seen = [self.cuts[dag][s] for s in targets]
        return [other for other in self.groups[self.cuts[dag][()]] if self.reached[other].issuperset(seen)]

    def known(self, dag: Pdag, targets: list[tuple[int, ...]]) -> list[Pdag]:
        mine = self.cuts[dag]
        group = self.groups[mine[()]]
        return [other for other in group if all(self.cuts[other][s] == mine[s] for s in targets)]


@pytest.fixture(scope="module")
def four(every_dag: Dags) -> Listing:
    return Listing(every_dag(4))


def sound(estimate: Pdag, dag: Pdag) -> bool:
    """Every direction is the DAG's, and the skeleton too."""
    arrows = all(mask & ~truth == 0 for mask, truth in zip(estimate.parents, dag.parents, strict=True))
    return arrows and estimate.adjacent == dag.adjacent


def check(listing: Listing, dag: Pdag, targets: list[tuple[int, ...]]) -> tuple[Pdag, Pdag]:
    common, parties = dag_to_cpdag(dag), party_cpdags(dag, targets)
    moved = transfer(common, parties)
    found = unknown_target_class(common, parties)
    assert found is not None and moved.rejected == ()
    expected = listing.unknown(dag, targets)
    members = list(found.members())
    assert set(members) == set(expected) and len(members) == len(expected)
    assert found.graph == common_graph(expected)
    assert vote(common, parties).graph == vote(common, parties, arrows=False).graph == found.graph
    assert sound(moved.graph, dag) and sound(found.graph, dag)
    assert found.contains(dag)
    return moved.graph, found.graph


def test_sweep_of_all_dags_on_four_nodes_and_single_targets(four: Listing) -> None:
    # 542 DAGs with an edge, 4 targets: transfer is sound in all 2168 cases, and the class is tighter in 300.
    cases = tighter = 0
    for dag in four.cuts:
        if not dag.directed_edges():
            continue
        for target in range(4):
            moved, tight = check(four, dag, [(target,)])
            cases += 1
            tighter += moved != tight
            assert all(a & ~b == 0 for a, b in zip(moved.parents, tight.parents, strict=True))
            assert phi_cpdag(dag, [[], [target]]) == moved
            assert phi_cpdag(dag, [[target]], rule="unknown") == tight
    assert (cases, tighter) == (2168, 300)


def test_several_parties_with_several_targets(four: Listing) -> None:
    generator = np.random.default_rng(0)
    dags, sets = list(four.cuts), subsets(4)
    for _ in range(600):
        dag = dags[generator.integers(len(dags))]
        targets = [sets[k] for k in generator.integers(len(sets), size=generator.integers(4))]
        check(four, dag, targets)


def test_known_targets(four: Listing) -> None:
    generator = np.random.default_rng(1)
    dags, sets = list(four.cuts), subsets(4)
    for _ in range(600):
        dag = dags[generator.integers(len(dags))]
        targets = [sets[k] for k in generator.integers(len(sets), size=generator.integers(1, 4))]
        common, parties = dag_to_cpdag(dag), party_cpdags(dag, targets)
        found = known_target_class(common, parties, targets)
        assert found is not None
        expected = four.known(dag, targets)
        assert set(found.members()) == set(expected)
        assert found.graph == common_graph(expected) == phi_cpdag(dag, targets, rule="known")
        assert sound(found.graph, dag)


def test_classes_on_five_and_six_nodes(random_dag: Draw) -> None:
    generator = np.random.default_rng(2)
    tighter = 0
    for trial in range(40):
        p = 5 + trial % 2
        matrix = random_dag(p, generator.uniform(2, 3.6), generator)
        dag = Pdag.from_matrix(matrix)
        listing = Listing([member.matrix() for member in equivalence_class(dag_to_cpdag(dag))])
        sets = [s for s in subsets(p) if len(s) < 3]
        targets = [sets[k] for k in generator.integers(len(sets), size=3)]
        moved, tight = check(listing, dag, targets)
        tighter += moved != tight
    assert tighter > 0


def test_targets_that_are_possible_and_certain(four: Listing) -> None:
    generator = np.random.default_rng(3)
    dags, sets = list(four.cuts), subsets(4)
    for _ in range(200):
        dag = dags[generator.integers(len(dags))]
        targets = [sets[k] for k in generator.integers(len(sets), size=2)]
        parties = party_cpdags(dag, targets)
        found = unknown_target_class(dag_to_cpdag(dag), parties)
        assert found is not None
        for k, party in enumerate(parties):
            # By definition: each member's heads of edges that the party lacks.
            heads = [
                {j for i, j in member.directed_edges() if not party.adjacent[i] >> j & 1}
                for member in four.unknown(dag, targets)
            ]
            assert found.possible_targets(k) == set.union(*heads)
            assert found.certain_targets(k) == set.intersection(*heads)
            assert found.certain_targets(k) <= set(targets[k])


def test_cpdags_that_no_dag_explains(four: Listing) -> None:
    """The class is None exactly when the listing finds no DAG and no targets, for arbitrary CPDAGs."""
    generator = np.random.default_rng(4)
    cpdags = {dag: dag_to_cpdag(dag) for dag in four.cuts}
    dags, empty = list(cpdags), 0
    for _ in range(3000):
        dag, *others = (dags[k] for k in generator.integers(len(dags), size=3))
        seen = [four.cuts[other][()] for other in others]
        expected = [m for m in four.groups[four.cuts[dag][()]] if four.reached[m].issuperset(seen)]
        common, parties = cpdags[dag], [cpdags[other] for other in others]
        found = unknown_target_class(common, parties)
        assert (None if found is None else set(found.members())) == (set(expected) or None)
        empty += not expected
        # What is voted is always a part of the common class, and closed.
        for voted in (transfer(common, parties), vote(common, parties)):
            base = extensions(common)
            arrows = voted.graph.directed_edges()
            assert base.member(arrows) is not None
            assert meek_closure(voted.graph) == voted.graph
            assert all(a & ~b == 0 for a, b in zip(common.parents, voted.graph.parents, strict=True))
    assert 2000 < empty < 3000


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_worked_cases(case: dict[str, Any]) -> None:
    p, parties = case["p"], case["parties"]
    dag, common = read(case["dag"], p), read(case["cpdag"], p)
    targets = [party["targets"] for party in parties]
    assert dag_to_cpdag(dag) == common
    cpdags = party_cpdags(dag, targets)
    phi = phi_cpdag(dag, targets)
    for party, cpdag in zip(parties, cpdags, strict=True):
        assert mutilate(dag, party["targets"]) == read(party["cut"], p)
        assert cpdag == read(party["cpdag"], p)
        new = {(i, j, k) for (i, j), k in party["new_v"]}
        assert v_structures(cpdag) - v_structures(common) == new
        assert directed_consensus(common, cpdag) == read(party["mu_cpdag"], p)
        assert undirected_consensus(common, cpdag) == read(party["nu_cpdag"], p)
        assert directed_consensus(phi, cpdag) == read(party["mu_phi"], p)
        assert undirected_consensus(phi, cpdag) == read(party["nu_phi"], p)
        assert skeleton_consensus(phi, cpdag) == read(party["nu_ref_phi"], p)
    assert common_cpdag(cpdags) == common
    assert phi == transfer(common, cpdags).graph == read(case["transfer"], p)
    unknown, known = unknown_target_class(common, cpdags), known_target_class(common, cpdags, targets)
    assert unknown is not None and known is not None
    assert (unknown.graph, known.graph) == (read(case["unknown"], p), read(case["known"], p))
    sizes = [len(list(equivalence_class(common))), len(list(unknown.members())), len(list(known.members()))]
    assert sizes == case["sizes"]


def test_larger_graphs_are_sound(random_dag: Draw) -> None:
    generator = np.random.default_rng(5)
    tighter = 0
    for p in (10, 20, 50, 100):
        for _ in range(8):
            matrix = random_dag(p, 3, generator)
            dag, common = Pdag.from_matrix(matrix), dag_to_cpdag(matrix)
            targets = [generator.choice(p, size=2, replace=False).tolist() for _ in range(4)]
            parties = party_cpdags(dag, targets)
            moved, found = transfer(common, parties), unknown_target_class(common, parties)
            assert found is not None and found.contains(dag)
            assert sound(moved.graph, dag) and sound(found.graph, dag)
            assert vote(common, parties).graph == found.graph
            assert all(a & ~b == 0 for a, b in zip(moved.graph.parents, found.graph.parents, strict=True))
            tighter += moved.graph != found.graph
            for k in range(4):
                assert found.certain_targets(k) <= set(targets[k])
                assert found.certain_targets(k) <= found.possible_targets(k)
    assert tighter > 0


def test_votes_are_counted() -> None:
    triangle = Pdag.from_edges(3, undirected=[(0, 1), (1, 2), (0, 2)])
    collider = Pdag.from_edges(3, directed=[(0, 2), (1, 2)])
    chain_ = Pdag.from_edges(3, undirected=[(0, 2), (1, 2)])
    alone = vote(triangle, [triangle, collider])
    assert alone.graph == Pdag.from_edges(3, [(0, 2), (1, 2)], [(0, 1)])
    assert next(s for s in alone.accepted if s.kind == "collider").nodes == (0, 2, 1)
    strict: dict[str, Any] = {"missing_edges": False, "arrows": False}
    tied = vote(triangle, [collider, chain_], **strict)
    assert tied.graph == triangle and tied.accepted == ()
    assert vote(triangle, [collider, collider, chain_], **strict).graph == alone.graph
    assert vote(triangle, [collider, collider, chain_], min_support=3, **strict).graph == triangle
    assert vote(triangle, [collider, chain_], missing_edges=False).graph == alone.graph
    outvoted = vote(triangle, [collider, chain_, chain_], **strict)
    assert [(s.kind, s.support, s.opposition) for s in outvoted.accepted] == [("no collider", 2, 1)]
    assert transfer(triangle, [collider, collider], min_support=3).graph == triangle
    assert transfer(triangle, [collider, collider], min_support=2).graph == alone.graph
    opposite = Pdag.from_edges(3, directed=[(2, 0), (1, 0)])
    assert transfer(triangle, [collider, opposite]).graph == Pdag.from_edges(3, [(1, 0), (1, 2)], [(0, 2)])


@pytest.mark.parametrize("doubled", [0, 1, 2])
def test_votes_that_contradict_each_other_are_rejected(doubled: int) -> None:
    # Three colliders that make a cycle 0 -> 1 -> 2 -> 0 in the complete graph on four nodes; one has two votes.
    complete = Pdag.from_edges(4, undirected=list(combinations(range(4), 2)))
    arrows = [(0, 1), (1, 2), (2, 0)]
    parties = [Pdag.from_edges(4, directed=[arrow, (3, arrow[1])]) for arrow in arrows]
    parties.append(parties[doubled])
    for voted, kinds in (
        (vote(complete, parties, missing_edges=False), {"collider", "arrow"}),
        (vote(complete, parties, missing_edges=False, arrows=False), {"collider"}),
        (transfer(complete, parties), {"arrow"}),
    ):
        assert {s.kind for s in voted.rejected} == kinds and len(voted.rejected) == len(kinds)
        assert {s.support for s in voted.rejected} == {1}
        assert arrows[doubled] in voted.graph.directed_edges()
        assert extensions(complete).member(voted.graph.directed_edges()) is not None
        leads = [s.support - s.opposition for s in voted.accepted]
        assert leads == sorted(leads, reverse=True)


def test_common_cpdag() -> None:
    chain_ = Pdag.from_edges(3, undirected=[(0, 1), (1, 2)])
    collider = Pdag.from_edges(3, directed=[(0, 1), (2, 1)])
    edge = Pdag.from_edges(3, undirected=[(0, 1)])
    other = Pdag.from_edges(3, undirected=[(1, 2)])
    assert common_cpdag([edge, chain_, chain_]) == chain_
    assert common_cpdag([edge, other]) is None
    assert common_cpdag([chain_, collider]) is None
    assert unknown_target_class(edge, [other]) is None


def test_refusals() -> None:
    chain_ = Pdag.from_edges(3, undirected=[(0, 1), (1, 2)])
    arrow = Pdag.from_edges(3, directed=[(0, 1)])
    assert not is_cpdag(arrow)
    square = Pdag.from_edges(4, undirected=[(0, 1), (1, 2), (2, 3), (0, 3)])
    with pytest.raises(InvalidParameter, match="common must be a CPDAG"):
        unknown_target_class(arrow, [chain_])
    with pytest.raises(InvalidParameter, match=r"parties\[1\] must be a CPDAG"):
        unknown_target_class(chain_, [chain_, arrow])
    with pytest.raises(InvalidParameter, match=r"parties\[0\] must have 3 nodes, got 4"):
        unknown_target_class(chain_, [np.zeros((4, 4))])
    with pytest.raises(InvalidParameter, match=r"parties\[0\] must have 3 nodes, got 4"):
        transfer(chain_, [square])
    with pytest.raises(InvalidParameter, match="common must have a consistent extension"):
        vote(square, [square])
    with pytest.raises(InvalidParameter, match="min_support must be a whole number of at least 1, got 0"):
        transfer(chain_, [chain_], min_support=0)
    with pytest.raises(InvalidParameter, match="targets must be one set for each of the 1 parties, got 2"):
        known_target_class(chain_, [chain_], [[], []])
    with pytest.raises(InvalidParameter, match=r"targets\[0\] must be nodes from 0 to 2, got 3"):
        known_target_class(chain_, [chain_], [[3]])
    with pytest.raises(InvalidParameter, match="rule must be 'transfer', 'unknown' or 'known', got 'all'"):
        phi_cpdag(np.zeros((2, 2)), [[]], rule="all")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="at least one CPDAG, got none"):
        common_cpdag([])
    with pytest.raises(InvalidParameter, match=r"parties\[1\] must have 3 nodes"):
        common_cpdag([chain_, np.zeros((2, 2))])
