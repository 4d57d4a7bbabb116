"""PERI and I-PERI: exact CPDAGs give the exact class, regrets by direct regression, and the faults that are not repeated."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privfcd import IPERI, PERI, Moments
from privfcd.algorithms.ges import greedy_search
from privfcd.algorithms.local import LocalFederation
from privfcd.algorithms.peri import messages
from privfcd.algorithms.peri.coordinator import PERICoordinator
from privfcd.algorithms.peri.local_graph import repaired
from privfcd.algorithms.peri.party import PERIParty
from privfcd.algorithms.peri.refinement import refined
from privfcd.algorithms.peri.regrets import RegretScore
from privfcd.algorithms.peri.settings import Settings
from privfcd.algorithms.recorded import RecordedFederation
from privfcd.datasets.interventions import unknown_interventions
from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.graphs import (
    Pdag,
    compare_pdags,
    consistent_extension,
    dag_to_cpdag,
    directed_consensus,
    is_cpdag,
    party_cpdags,
    phi_cpdag,
    skeleton,
)
from privfcd.graphs.pdag import bits

CASES = json.loads((Path(__file__).parents[1] / "graphs" / "phi_cases.json").read_text())


def read(text: str, p: int) -> Pdag:
    ends = [(edge[1], (int(edge[0]), int(edge[2]))) for edge in text.split()]
    return Pdag.from_edges(p, [e for kind, e in ends if kind == ">"], [e for kind, e in ends if kind == "-"])


def weighted(dag: Pdag, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    weights = np.zeros((dag.p, dag.p))
    for i, j in dag.directed_edges():
        weights[i, j] = rng.uniform(0.5, 2.0) * rng.choice([-1, 1])
    return weights


def population(weights: np.ndarray, targets: Any, rows: int = 10**6) -> Moments:
    own = weights.copy()
    own[:, list(targets)] = 0
    inverse = np.linalg.inv(np.eye(len(own)) - own)
    matrix = inverse.T @ inverse
    return Moments((matrix + matrix.T) / 2, rows, tuple(f"x{j}" for j in range(len(own))))


def exact_fit(dag: Pdag, targets: Any, seed: int = 0, rows: int = 10**6, **options: Any) -> IPERI:
    weights = weighted(dag, seed)
    parts = [population(weights, nodes, rows) for nodes in targets]
    return IPERI(**options).fit(parts, graphs=party_cpdags(dag, targets))


def sampled(rows: np.ndarray) -> Moments:
    centred = rows - rows.mean(axis=0)
    matrix = centred.T @ centred / len(rows)
    return Moments((matrix + matrix.T) / 2, len(rows), tuple(f"x{j}" for j in range(rows.shape[1])))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
@pytest.mark.parametrize("refine", [True, False])
def test_the_cases(case: dict[str, Any], refine: bool) -> None:
    p = case["p"]
    dag, targets = read(case["dag"], p), [party["targets"] for party in case["parties"]]
    assert party_cpdags(dag, targets) == tuple(read(party["cpdag"], p) for party in case["parties"])
    model = exact_fit(dag, targets, seed=3, refine=refine)
    assert model.cpdag_ == read(case["cpdag"], p)
    assert model.phi_cpdag_ == read(case["unknown"], p)
    assert model.rule_["orientation"] == "class of unknown targets"
    by_regret = exact_fit(dag, targets, seed=3, refine=refine, orientation="regret").phi_cpdag_
    assert by_regret == read(case["transfer"], p)


@pytest.mark.parametrize("p", [3, 5, 8, 10])
def test_exact_cpdags_of_random_graphs_give_the_exact_class(p: int) -> None:
    runs = {"refined": {}, "phase 1": {"refine": False}}
    right = {name: 0 for name in runs}
    for seed in range(2000, 2020):
        made = unknown_interventions(p, 4, 10, seed)
        for name, options in runs.items():
            parts = [population(made.weights, targets) for targets in made.targets]
            model = IPERI(**options).fit(parts, graphs=party_cpdags(made.dag, made.targets))  # type: ignore[arg-type]
            common = model.cpdag_ == dag_to_cpdag(made.dag)
            right[name] += common and model.phi_cpdag_ == phi_cpdag(made.dag, made.targets, "unknown")
            assert compare_pdags(made.dag, model.phi_cpdag_).reversed == 0
    assert min(right.values()) >= 19


def every_case() -> list[tuple[Pdag, int]]:
    """Every DAG on four nodes with an edge, and every single target."""
    pairs = list(itertools.combinations(range(4), 2))
    dags = []
    for states in itertools.product((0, 1, 2), repeat=6):
        edges = [pair if state == 1 else pair[::-1] for pair, state in zip(pairs, states, strict=True) if state]
        graph = Pdag.from_edges(4, directed=edges)
        if edges and consistent_extension(graph) == graph:
            dags.append(graph)
    return [(dag, target) for dag in dags for target in range(4)]


def check_sweep(step: int) -> None:
    cases = every_case()
    assert len(cases) == 2168
    right = 0
    chosen = cases[::step]
    for number, (dag, target) in enumerate(chosen):
        model = exact_fit(dag, [(), (target,)], seed=number)
        found = compare_pdags(dag, model.phi_cpdag_)
        assert found.reversed == 0, (dag, target)
        right += model.phi_cpdag_ == phi_cpdag(dag, [(), (target,)], "unknown")
    assert right >= 0.95 * len(chosen)


def test_part_of_the_sweep_of_all_dags_on_four_nodes() -> None:
    check_sweep(23)


@pytest.mark.slow
def test_the_sweep_of_all_dags_on_four_nodes_and_single_targets() -> None:
    check_sweep(1)


def party(rows: np.ndarray, graph: Pdag, **options: Any) -> PERIParty:
    moments = sampled(rows)
    made = PERIParty("p", moments, graph)
    made.answer(messages.Offer(Settings(**options), moments.columns))
    return made


def bic(rows: np.ndarray, node: int, given: list[int]) -> float:
    """By least squares with an intercept, from the rows."""
    n = len(rows)
    design = np.column_stack([np.ones(n), rows[:, given]])
    errors = rows[:, node] - design @ np.linalg.lstsq(design, rows[:, node], rcond=None)[0]
    return -n / 2 * (1 + math.log((errors**2).mean())) - math.log(n) / 2 * (len(given) + 1)


def test_regrets_are_those_of_masked_families_by_direct_regression() -> None:
    rows = np.random.default_rng(4).normal(size=(300, 4)) @ np.random.default_rng(5).normal(size=(4, 4))
    graph = dag_to_cpdag(Pdag.from_edges(4, directed=[(0, 2), (1, 2), (2, 3)]))
    own = consistent_extension(graph)
    assert own is not None
    families = [(node, mask) for node in range(4) for mask in range(16) if not mask >> node & 1]
    kept = {
        "none": lambda node, mask: mask,
        "directed": lambda node, mask: mask & (graph.parents[node] | graph.neighbours[node]),
        "skeleton": lambda node, mask: mask & graph.adjacent[node],
    }
    for name, mask_of in kept.items():
        ask = messages.AskRegrets(tuple(families), name, 4)  # type: ignore[arg-type]
        answer = party(rows, graph, masked=name != "none", orientation="authors").answer(ask)
        assert isinstance(answer, messages.Regrets)
        for (node, mask), value in zip(families, answer.values, strict=True):
            left = list(bits(mask_of(node, mask)))
            expected = bic(rows, node, list(bits(own.parents[node]))) - bic(rows, node, left)
            assert value == pytest.approx(expected, abs=1e-6)
    ask = messages.AskRegrets(tuple(families), "targets", 4)
    answer = party(rows, graph).answer(ask)
    assert isinstance(answer, messages.Regrets)
    for (node, mask), value in zip(families, answer.values, strict=True):
        alone = bic(rows, node, []) - (math.log(300) / 2 if mask else 0.0)
        best = max(alone, bic(rows, node, list(bits(mask))))
        assert value == pytest.approx(bic(rows, node, list(bits(own.parents[node]))) - best, abs=1e-6)


def test_masked_families_of_a_dag_are_those_of_the_masked_graph() -> None:
    # mu of a DAG and a CPDAG keeps a parent exactly where the party has it as parent or neighbour
    rng = np.random.default_rng(6)
    for _ in range(50):
        upper = np.triu(rng.random((5, 5)) < 0.5, 1)
        dag = Pdag.from_matrix(upper[np.ix_(*[rng.permutation(5)] * 2)])
        other = dag_to_cpdag(Pdag.from_matrix(np.triu(rng.random((5, 5)) < 0.5, 1)))
        masked = directed_consensus(dag, other)
        for node, parents in enumerate(dag.parents):
            assert masked.parents[node] == parents & (other.parents[node] | other.neighbours[node])


def federation(made: Any, **options: Any) -> RecordedFederation:
    parts = [sampled(table) for table in made.tables]
    recorded = RecordedFederation.local([PERIParty(f"p{k}", part) for k, part in enumerate(parts)])
    recorded.ask(messages.Offer(Settings(**options), parts[0].columns))
    return recorded


def test_families_of_one_step_pass_in_one_message_and_none_twice() -> None:
    made = unknown_interventions(7, 3, 400, 2030)
    recorded = federation(made)
    found = greedy_search(RegretScore(recorded, 7))
    asked = [message for message, _ in recorded.transcript if isinstance(message, messages.AskRegrets)]
    families = [family for message in asked for family in message.families]
    assert len(asked) == found.messages and len(families) == len(set(families)) == found.families
    assert len(asked) <= 2 * len(found.steps) + 4
    model = IPERI().fit([sampled(table) for table in made.tables])
    assert model.messages_ >= found.messages and model.regrets_ > found.families
    one = messages.AskRegrets(((0, 1), (1, 5)), "directed", 7)
    assert one.payload_bytes() == 2 * 2 and messages.Graph((0,) * 7).payload_bytes() == 6


def test_bytes_are_what_passes() -> None:
    made = unknown_interventions(5, 3, 300, 2031)
    parts = [sampled(table) for table in made.tables]
    recorded = RecordedFederation.local([PERIParty(f"p{k}", part) for k, part in enumerate(parts)])
    PERICoordinator(Settings(), parts[0].columns).run(recorded)
    counted = sum(
        message.payload_bytes() * len(answers) + sum(answer.payload_bytes() for answer in answers)
        for message, answers in recorded.transcript
    )
    assert recorded.bytes_exchanged == counted == IPERI().fit(parts).bytes_exchanged_ > 0


@pytest.mark.parametrize(
    "options", [{}, {"refine": False}, {"refine": False, "orientation": "regret"}, {"worst": "node"}]
)
def test_the_order_of_the_parties_does_not_matter(options: dict[str, Any]) -> None:
    for seed in (2040, 2041):
        made = unknown_interventions(6, 4, 500, seed)
        parts = [sampled(table) for table in made.tables]
        found = IPERI(**options).fit(parts)
        for order in ((3, 2, 1, 0), (1, 3, 0, 2)):
            again = IPERI(**options).fit([parts[k] for k in order])
            assert (again.cpdag_, again.phi_cpdag_) == (found.cpdag_, found.phi_cpdag_)


def test_columns_are_aligned_by_name() -> None:
    made = unknown_interventions(5, 3, 500, 2042)
    parts = [sampled(table) for table in made.tables]
    order = [3, 1, 4, 0, 2]
    mixed = Moments(parts[1].matrix[np.ix_(order, order)], parts[1].rows, tuple(f"x{j}" for j in order))
    assert IPERI().fit([parts[0], mixed, parts[2]]).phi_cpdag_ == IPERI().fit(parts).phi_cpdag_


def test_worst_by_node_bounds_worst_by_party() -> None:
    made = unknown_interventions(6, 4, 300, 2043)
    recorded = federation(made)
    families = [(node, made.dag.parents[node]) for node in range(6)]
    by_party = RegretScore(recorded, 6, "directed", "party").local(families).sum(axis=0)
    by_node = RegretScore(recorded, 6, "directed", "node").local(families).sum(axis=0)
    assert by_party.shape == (4,) and by_node.shape == (1,)
    assert by_node[0] <= by_party.min() + 1e-9


def test_without_interventions_peri_finds_the_class() -> None:
    for seed in range(2050, 2056):
        made = unknown_interventions(6, 3, 10, seed, targets=[(), (), ()])
        parts = [population(made.weights, ()) for _ in range(3)]
        for worst in ("party", "node"):
            model = PERI(worst=worst).fit(parts)  # type: ignore[arg-type]
            assert model.cpdag_ == dag_to_cpdag(made.dag) and not hasattr(model, "phi_cpdag_")
            assert model.causal_graph_.number_of_nodes() == 6
        assert PERI(local="ges").fit(parts).cpdag_ == dag_to_cpdag(made.dag)


def test_observational_parties_alone_direct_nothing_more() -> None:
    # the authors' rule directs every edge; ours need a party whose CPDAG says so
    dag = Pdag.from_edges(4, directed=[(0, 1), (1, 2), (0, 2), (2, 3)])
    for orientation, open_edges in (("votes", 4), ("regret", 4), ("authors", 0)):
        model = exact_fit(dag, [(), ()], rows=1000, refine=False, orientation=orientation)
        assert model.cpdag_ == dag_to_cpdag(dag)
        assert len(model.phi_cpdag_.undirected_edges()) == open_edges
        assert skeleton(model.phi_cpdag_) == skeleton(dag)


def test_refinement_stops_at_the_true_class_and_counts_what_it_asks() -> None:
    made = unknown_interventions(8, 4, 10, 2060)
    parties = [PERIParty(f"p{k}", population(made.weights, targets)) for k, targets in enumerate(made.targets)]
    local = LocalFederation(parties)
    local.ask(messages.Offer(Settings(), tuple(f"x{j}" for j in range(8))))
    found = refined(dag_to_cpdag(made.dag), local)
    assert found.cpdag == dag_to_cpdag(made.dag) == dag_to_cpdag(found.dag)
    assert found.messages > 0 and found.families > 8


@pytest.mark.parametrize(
    "graph",
    [
        Pdag.from_edges(4, undirected=[(0, 1), (1, 2), (2, 3), (3, 0)]),
        Pdag.from_edges(3, directed=[(0, 1), (1, 2), (2, 0)]),
        Pdag.from_edges(4, directed=[(0, 1), (2, 1)], undirected=[(1, 3), (3, 0), (3, 2)]),
    ],
)
def test_graphs_without_consistent_extension_are_repaired(graph: Pdag) -> None:
    better = repaired(graph)
    assert skeleton(better) == skeleton(graph) and consistent_extension(better) is not None
    if consistent_extension(graph) is None:
        assert is_cpdag(better)
    parts = [sampled(np.random.default_rng(k).normal(size=(60, graph.p))) for k in range(3)]
    for orientation in ("votes", "regret", "authors"):
        model = IPERI(orientation=orientation, refine=False).fit(parts, graphs=[graph, graph, skeleton(graph)])
        assert model.phi_cpdag_.p == graph.p


def test_small_noisy_parties_never_break_it() -> None:
    for seed in range(2070, 2076):
        made = unknown_interventions(7, 3, 25, seed, expected_edges=12)
        parts = [sampled(table) for table in made.tables]
        for options in ({"local": "ges"}, {"orientation": "regret"}, {"orientation": "authors", "worst": "node"}):
            model = IPERI(**options).fit(parts)  # type: ignore[arg-type]
            assert is_cpdag(model.cpdag_) and model.n_features_in_ == 7
            assert {"phase", "step", "nodes", "for", "against"} == set(model.history_[0])
        assert IPERI(min_support=2).fit(parts).rule_["orientation"] == "votes"


@pytest.mark.parametrize(
    "changes",
    [
        {"local": "notears"},
        {"worst": "all"},
        {"orientation": None},
        {"orientation": "meek"},
        {"refine": 1},
        {"min_support": 0},
        {"missing_edges": "no"},
        {"turning": None},
        {"max_parents": -1},
        {"alpha": 0.0},
        {"max_cond_vars": 1.5},
        {"penalty": 0.0},
        {"release": "all"},
        {"release": "exact"},
        {"privacy": "none"},
        {"privacy": "regret"},
        {"epsilon": 1.0},
        {"row_norm": 1.0},
        {"center": True},
        {"value_bound": 1.0},
        {"max_regrets": 0},
        {"radius": 0.0},
        {"variance_floor": math.nan},
        {"graph_share": 1.0},
    ],
)
def test_bad_parameters_are_refused(changes: dict[str, Any]) -> None:
    parts = [sampled(np.random.default_rng(k).normal(size=(30, 3))) for k in range(2)]
    with pytest.raises(InvalidParameter):
        IPERI(**changes).fit(parts)


def test_bad_graphs_and_sources_are_refused() -> None:
    parts = [sampled(np.random.default_rng(k).normal(size=(30, 3))) for k in range(2)]
    empty = Pdag((0,) * 3, (0,) * 3)
    for graphs in ([empty], [empty, Pdag((0,) * 4, (0,) * 4)], [empty, np.eye(3)]):
        with pytest.raises(InvalidParameter):
            IPERI().fit(parts, graphs=graphs)
    for source in ([], "rows", [parts[0], 3], Moments(np.eye(1), 5, ("x",))):
        with pytest.raises(InvalidParameter):
            PERI().fit(source)  # type: ignore[arg-type]


def test_a_party_refuses_what_it_does_not_understand() -> None:
    fresh = PERIParty("p", sampled(np.random.default_rng(0).normal(size=(30, 3))))
    with pytest.raises(PartyFailed):
        fresh.answer(messages.AskGraph())
    with pytest.raises(PartyFailed):
        fresh.answer(messages.Offer(Settings(), ("a", "b", "c")))
    fresh.answer(messages.Offer(Settings(), ("x2", "x0", "x1")))
    for bad in (
        messages.AskRegrets(((0, 1),), "directed", 3),
        messages.AskRegrets(((3, 0),), "directed", 3),
        messages.AskRegrets(((0, 8),), "directed", 3),
        messages.AskRegrets(((0, 2),), "all", 3),  # type: ignore[arg-type]
        messages.AskColliders(Pdag((0,) * 4, (0,) * 4), ((),)),
        messages.Quote(3),
    ):
        with pytest.raises(PartyFailed):
            fresh.answer(bad)
    for graph in (messages.Graph((1, 0)), messages.Graph((8, 0, 0)), messages.Graph((1, 0, 0))):
        with pytest.raises(PartyFailed):
            graph.decode(3, "p")
    with pytest.raises(PartyFailed):
        messages.Regrets(np.array([1.0, np.nan])).check(2, "p")
