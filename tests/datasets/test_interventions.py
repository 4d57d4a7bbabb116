"""The simulator of unknown interventions, against its equations, its choice of targets and its streams."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privfcd.datasets.interventions import shielded_targets, unknown_interventions
from privfcd.errors import InvalidParameter
from privfcd.graphs import Pdag, is_dag, mutilate, party_cpdags, transfer, v_structures


def noise_of(seed: int, party: int, rows: int, d: int) -> np.ndarray:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(15, party))).standard_normal((rows, d))


@given(st.integers(1, 9), st.integers(0, 2**40), st.integers(0, 3), st.floats(0, 1))
def test_linear_rows_solve_the_mutilated_equations(d: int, seed: int, observational: int, bias: float) -> None:
    made = unknown_interventions(
        d, 3, 6, seed, observational=observational, targets_per_party=2, bias=bias, noise_sd=0.7, target_sd=3.0
    )
    assert is_dag(made.dag) and (made.dag.matrix() == (made.weights != 0)).all()
    magnitudes = np.abs(made.weights[made.weights != 0])
    assert ((magnitudes >= 0.5) & (magnitudes <= 2)).all()
    with_parents = {j for _, j in made.dag.directed_edges()}
    for p, (table, targets) in enumerate(zip(made.tables, made.targets, strict=True)):
        assert len(targets) == (0 if p < observational else min(2, len(with_parents)))
        assert set(targets) <= with_parents and list(targets) == sorted(set(targets))
        own = made.weights * mutilate(made.dag, targets).matrix()
        noise = 0.7 * noise_of(seed, p, 6, d)
        noise[:, list(targets)] *= 3.0 / 0.7
        # X = E (I - B)^-1, whatever the order of the variables' numbers.
        assert np.allclose(table @ (np.eye(d) - own), noise, atol=1e-7)


@pytest.mark.parametrize("mechanism", ["sine", "tanh"])
def test_curved_rows_solve_their_equations(mechanism: Any) -> None:
    d, seed = 7, 11
    made = unknown_interventions(d, 3, 50, seed, mechanism=mechanism, expected_edges=12.0)
    shapes = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(12,)))
    slopes, shifts = shapes.uniform(0.5, 2, (d, d)), shapes.uniform(-1, 1, (d, d))
    curve = {"sine": np.sin, "tanh": np.tanh}[mechanism]
    for p, (table, targets) in enumerate(zip(made.tables, made.targets, strict=True)):
        own = made.weights.copy()
        own[:, list(targets)] = 0
        parts = curve(slopes * table[:, :, None] + shifts) * own  # [row, i, j]
        assert np.allclose(table - parts.sum(axis=1), noise_of(seed, p, 50, d), atol=1e-10)
    assert (made.weights == unknown_interventions(d, 3, 50, seed, expected_edges=12.0).weights).all()


def test_every_pair_has_an_edge_with_the_same_probability_in_a_uniform_order() -> None:
    d, draws = 5, 4000
    counts = np.zeros((d, d))
    totals = []
    for seed in range(draws):
        matrix = unknown_interventions(d, 1, 1, seed, expected_edges=4.0).dag.matrix()
        counts += matrix
        totals.append(matrix.sum())
    # Each ordered pair: 0.4 / 2. Twenty cells and one mean at a family-wise level of 1e-3.
    level = 1e-3 / 21
    for i, j in permutations(range(d), 2):
        assert stats.binomtest(int(counts[i, j]), draws, 0.2).pvalue > level
    assert stats.binomtest(int(sum(totals)), draws * 10, 0.4).pvalue > level


@given(st.integers(2, 8), st.integers(0, 2**32))
def test_useful_targets_are_those_that_unshield_a_collider(d: int, seed: int) -> None:
    made = unknown_interventions(d, 4, 1, seed, expected_edges=min(2.0 * d, d * (d - 1) / 2))
    dag = made.dag
    by_definition = tuple(
        b for b in range(d) if any(dag.parents[b] & dag.parents[c] for c in range(d) if dag.children[b] >> c & 1)
    )
    assert shielded_targets(dag) == by_definition
    for targets in made.targets[1:]:
        new = v_structures(mutilate(dag, targets)) - v_structures(dag)
        assert bool(new) == bool(by_definition)


def test_bias_makes_interventions_that_direct_edges() -> None:
    def directed(bias: float) -> int:
        total = 0
        for seed in range(60):
            made = unknown_interventions(8, 3, 1, seed, bias=bias, expected_edges=12.0)
            parties = party_cpdags(made.dag, made.targets)
            total += len(transfer(parties[0], parties).graph.directed_edges()) - len(parties[0].directed_edges())
        return total

    assert directed(1.0) > directed(0.0) > 0


def test_sizes_targets_and_streams() -> None:
    made = unknown_interventions(6, 3, [10, 20, 30], 5, targets=[[], [3, 1], (np.int64(0),)])
    assert [len(table) for table in made.tables] == [10, 20, 30]
    assert made.targets == ((), (1, 3), (0,))
    weights, tables = made
    assert weights is made.weights and tables is made.tables
    more = unknown_interventions(6, 4, [10, 40, 30, 5], 5, targets=[[], [1, 3], [0], []])
    assert (more.weights == made.weights).all() and (more.tables[2] == made.tables[2]).all()
    assert (more.tables[0] == made.tables[0]).all()
    drawn = unknown_interventions(4, 40, seed=2, row_choices=(5, 10, 20))
    assert {len(table) for table in drawn.tables} == {5, 10, 20}
    none = unknown_interventions(4, 2, 3, observational=0, expected_edges=0.0)
    assert none.targets == ((), ()) and none.dag == Pdag((0,) * 4, (0,) * 4)


def test_no_global_generator_is_touched() -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    unknown_interventions(5, 2, 3, 1)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d": 0}, "d must be"),
        ({"parties": 0}, "parties must be"),
        ({"rows": 0}, "rows must be"),
        ({"rows": [1, 2]}, "rows must be one number or 3"),
        ({"seed": -1}, "seed must be"),
        ({"row_choices": []}, "row_choices must be"),
        ({"row_choices": [5, 0]}, r"row_choices\[1\] must be"),
        ({"row_choices": 5}, "row_choices must be"),
        ({"expected_edges": 11.0}, r"expected_edges must be from 0 to d \(d - 1\) / 2 = 10"),
        ({"expected_edges": -1.0}, "expected_edges must be"),
        ({"observational": 4}, "observational must be at most"),
        ({"targets_per_party": -1}, "targets_per_party must be"),
        ({"bias": 1.5}, "bias must be"),
        ({"mechanism": "cubic"}, "mechanism must be one of linear, sine, tanh"),
        ({"noise_sd": 0.0}, "noise_sd must be"),
        ({"target_sd": -1.0}, "target_sd must be"),
        ({"targets": [[], []]}, "targets must be 3 sets, one a party, got 2"),
        ({"targets": [[], [], [5]]}, r"targets\[2\] must be nodes from 0 to 4, got 5"),
    ],
)
def test_refusals(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"d": 5, "parties": 3, "rows": 4, "seed": 0} | changes
    with pytest.raises(InvalidParameter, match=message):
        unknown_interventions(**arguments)
