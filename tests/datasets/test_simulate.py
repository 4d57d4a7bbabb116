"""The simulator, against the closed form of its law and its promises on streams."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.datasets.simulate import Simulation, linear_gaussian
from privfcd.errors import InvalidParameter
from privfcd.graphs import is_acyclic


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(0, 2**40), st.booleans(), st.data())
def test_graph_weights_and_equations(d: int, seed: int, heterogeneous: bool, data: st.DataObject) -> None:
    most = d * (d - 1) // 2
    edges = data.draw(st.none() | st.integers(0, most))
    made = linear_gaussian(d, 2, 6, seed, edges=edges, heterogeneous=heterogeneous)
    assert made.weights.shape == (d, d)
    assert is_acyclic(made.weights)
    present = made.weights != 0
    assert present.sum() == (min(d, most) if edges is None else edges)
    magnitudes = np.abs(made.weights[present])
    assert ((magnitudes >= 0.5) & (magnitudes <= 2.0)).all()
    for p, (table, own) in enumerate(zip(made.tables, made.party_weights, strict=True)):
        assert table.shape == (6, d) and table.dtype == np.float64
        assert np.array_equal(own != 0, present)
        assert heterogeneous or np.array_equal(own, made.weights)
        # An independent way to the same rows: X = E (I - B)^-1 with the party's own noise stream.
        stream = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3, p)))
        noise = stream.standard_normal((6, d))
        assert np.allclose(table @ (np.eye(d) - own), noise, atol=1e-8)


def test_unpacks_as_weights_and_tables() -> None:
    made = linear_gaussian(4, parties=3, rows=[5, 6, 7], seed=9)
    weights, tables = made
    assert isinstance(made, Simulation)
    assert weights is made.weights and tables is made.tables
    assert [len(table) for table in tables] == [5, 6, 7]


def same(one: Simulation, other: Simulation) -> bool:
    return np.array_equal(one.weights, other.weights) and all(
        np.array_equal(a, b) for a, b in zip(one.tables, other.tables, strict=True)
    )


@pytest.mark.parametrize("heterogeneous", [False, True])
def test_streams(heterogeneous: bool) -> None:
    def make(**changes: Any) -> Simulation:
        arguments = {"d": 6, "parties": 3, "rows": 20, "seed": 4, "heterogeneous": heterogeneous}
        return linear_gaussian(**{**arguments, **changes})

    made = make()
    assert same(made, make())
    assert not same(made, make(seed=5))
    more = make(parties=5)
    assert np.array_equal(more.weights, made.weights)
    assert all(np.array_equal(more.tables[p], made.tables[p]) for p in range(3))
    assert all(np.array_equal(more.party_weights[p], made.party_weights[p]) for p in range(3))
    uneven = make(rows=[20, 7, 30])
    assert np.array_equal(uneven.tables[0], made.tables[0])
    assert np.array_equal(uneven.tables[1], made.tables[1][:7])
    assert not np.array_equal(made.tables[0], made.tables[1])


def test_no_global_generator_is_touched() -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    linear_gaussian(5, 2, 10, seed=1)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("noise_sd", [1.0, 0.3])
def test_covariance_is_the_closed_form(noise_sd: float) -> None:
    made = linear_gaussian(5, parties=1, rows=200_000, seed=3, noise_sd=noise_sd)
    inverse = np.linalg.inv(np.eye(5) - made.weights)
    expected = noise_sd**2 * inverse.T @ inverse
    measured = made.tables[0].T @ made.tables[0] / 200_000
    # The sd of an entry of a Gaussian second-moment matrix, five times over.
    limit = 5 * np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / 200_000)
    assert (np.abs(measured - expected) < limit).all()


def test_law_of_graphs_and_weights() -> None:
    counts, draws = np.zeros((4, 4)), []
    for seed in range(3000):
        weights = linear_gaussian(4, 1, 1, seed, edges=3).weights
        counts += weights != 0
        draws.append(weights[weights != 0])
    off = counts[~np.eye(4, dtype=bool)]
    # By symmetry each ordered pair is an edge with probability 3 / 12.
    assert np.abs(off / 3000 - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 3000)
    values = np.concatenate(draws)
    assert abs((values > 0).mean() - 0.5) < 5 * 0.5 / np.sqrt(values.size)
    magnitudes = np.sort(np.abs(values))
    uniform = (magnitudes - 0.5) / 1.5
    steps = np.arange(1, values.size + 1) / values.size
    assert np.abs(uniform - steps).max() < 2.2 / np.sqrt(values.size)  # Kolmogorov's distance


def test_law_of_party_weights() -> None:
    made = linear_gaussian(6, parties=3000, rows=1, seed=8, heterogeneous=True)
    present = made.weights != 0
    gaps = np.array([own[present] for own in made.party_weights]) - made.weights[present]
    assert np.abs(gaps.mean(axis=0)).max() < 5 * np.sqrt(0.1 / 3000)
    assert np.abs(gaps.var(axis=0) - 0.1).max() < 5 * 0.1 * np.sqrt(2 / 3000)
    assert np.abs(np.corrcoef(gaps.T) - np.eye(gaps.shape[1])).max() < 5 / np.sqrt(3000)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d": 0}, "d must be"),
        ({"d": 2.5}, "d must be"),
        ({"parties": 0}, "parties must be"),
        ({"rows": 0}, "rows must be"),
        ({"rows": [5, 0]}, r"rows\[1\] must be"),
        ({"rows": [5]}, "rows must be one number or 2, one a party, got 1"),
        ({"rows": "55"}, "rows must be"),
        ({"rows": None}, "rows must be"),
        ({"seed": -1}, "seed must be"),
        ({"seed": None}, "seed must be"),
        ({"edges": 7}, r"edges must be at most d \(d - 1\) / 2 = 6, got 7"),
        ({"edges": -1}, "edges must be"),
        ({"noise_sd": 0}, "noise_sd must be"),
        ({"noise_sd": float("nan")}, "noise_sd must be"),
        ({"heterogeneous": "yes"}, "heterogeneous must be"),
    ],
)
def test_wrong_parameters(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        linear_gaussian(**{"d": 4, "parties": 2, "rows": 5, "seed": 1, **changes})
