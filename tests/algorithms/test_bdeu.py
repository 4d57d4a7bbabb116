"""BDeu against its product of probabilities, one record at a time, and its score equivalence."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privfcd.algorithms.bdeu import BDeu
from privfcd.errors import InvalidParameter

LEVELS = (2, 3, 2, 4)


def rows_of(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, level, n) for level in LEVELS]).astype(float)


def score_on(rows: np.ndarray, sample_size: float = 10.0) -> BDeu:
    return BDeu(LEVELS, lambda query: query.evaluate(rows), sample_size)


def one_by_one(rows: np.ndarray, node: int, parents: list[int], sample_size: float) -> float:
    """The marginal likelihood as predictions: each record given those before it, under a Dirichlet prior."""
    states = math.prod(LEVELS[parent] for parent in parents)
    prior = sample_size / states / LEVELS[node]
    seen: dict[tuple[int, ...], np.ndarray] = {}
    total = 0.0
    for row in rows.astype(int):
        counts = seen.setdefault(tuple(row[parents]), np.full(LEVELS[node], prior))
        total += math.log(counts[row[node]] / counts.sum())
        counts[row[node]] += 1
    return total


@given(st.integers(0, 1000), st.sampled_from([1.0, 10.0, 3.5]))
def test_the_score_is_the_product_of_predictions(seed: int, sample_size: float) -> None:
    rows = rows_of(40, seed)
    families = [(0, []), (1, [0]), (2, [0, 3]), (3, [0, 1, 2]), (3, [])]
    masks = [(node, sum(1 << parent for parent in parents)) for node, parents in families]
    found = score_on(rows, sample_size).local(masks)
    expected = [one_by_one(rows, node, parents, sample_size) for node, parents in families]
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-9)


def test_equivalent_graphs_score_alike() -> None:
    """0 -> 1 -> 2, 0 <- 1 <- 2 and 0 <- 1 -> 2; but not the collider."""
    score = score_on(rows_of(200, 5))

    def total(*families: tuple[int, int]) -> float:
        return float(score.total(score.local(list(families)).sum(axis=0)))

    one = total((0, 0), (1, 0b001), (2, 0b010))
    assert one == pytest.approx(total((2, 0), (1, 0b100), (0, 0b010)), rel=1e-12)
    assert one == pytest.approx(total((1, 0), (0, 0b010), (2, 0b010)), rel=1e-12)
    assert one != pytest.approx(total((0, 0), (2, 0), (1, 0b101)), rel=1e-6)


@pytest.mark.parametrize("sample_size", [0.0, -1.0, math.inf])
def test_bad_sample_sizes_are_refused(sample_size: float) -> None:
    with pytest.raises(InvalidParameter, match="sample_size"):
        score_on(rows_of(10, 0), sample_size)
