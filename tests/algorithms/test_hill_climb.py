"""Hill climbing: inside the skeleton, acyclic, and at an optimum that no single change improves, by brute force."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.algorithms.hill_climb import TOLERANCE, hill_climb
from privfcd.algorithms.scores import Family, GaussianBIC
from privfcd.errors import InvalidParameter
from privfcd.moments import Moments


def random_skeleton(d: int, share: float, seed: int) -> np.ndarray:
    upper = np.triu(np.random.default_rng(seed).random((d, d)) < share, 1)
    return upper | upper.T


def bic(d: int, seed: int) -> GaussianBIC:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(60, d)) @ rng.normal(size=(d, d))
    rows -= rows.mean(axis=0)
    return GaussianBIC(Moments(rows.T @ rows / 60, 60, tuple(f"x{j}" for j in range(d))))


def is_acyclic(matrix: np.ndarray) -> bool:
    return nx.is_directed_acyclic_graph(nx.from_numpy_array(matrix, create_using=nx.DiGraph))


def value(score: GaussianBIC, matrix: np.ndarray) -> float:
    masks = [sum(1 << int(i) for i in np.flatnonzero(matrix[:, j])) for j in range(len(matrix))]
    return float(score.total(score.local(list(enumerate(masks))).sum(axis=0)))


def neighbours(matrix: np.ndarray, adjacent: np.ndarray) -> list[np.ndarray]:
    found = []
    for i, j in zip(*np.nonzero(adjacent), strict=True):
        for forward, back in ((0, 0), (1, 0), (0, 1)):
            changed = matrix.copy()
            changed[i, j], changed[j, i] = forward, back
            if is_acyclic(changed):
                found.append(changed)
    return found


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 6), st.sampled_from([0.3, 0.7, 1.0]))
def test_no_single_change_is_better(seed: int, d: int, share: float) -> None:
    score, adjacent = bic(d, seed), random_skeleton(d, share, seed)
    climb = hill_climb(score, adjacent)
    matrix = climb.matrix()
    assert is_acyclic(matrix) and not (matrix & ~adjacent).any()
    assert climb.score == pytest.approx(value(score, matrix), rel=1e-12)
    for changed in neighbours(matrix, adjacent):
        assert value(score, changed) <= climb.score + 10 * TOLERANCE


class Counting:
    """A score that knows what it was asked, with the best graph 2 -> 1 -> 0 and a gain for every arc."""

    d = 3

    def __init__(self) -> None:
        self.asked: list[Family] = []

    def local(self, families: Sequence[Family]) -> np.ndarray:
        self.asked.extend(families)
        gains = {(0, 0b010): 3.0, (1, 0b100): 2.0, (1, 0b001): 2.5, (2, 0b010): 0.5}
        return np.array([[gains.get(family, -1.0 if family[1] else 0.0)] for family in families])

    def total(self, sums: np.ndarray) -> np.ndarray:
        return sums[..., 0]


def test_the_best_change_is_taken_and_nothing_is_asked_twice() -> None:
    score = Counting()
    adjacent = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    climb = hill_climb(score, adjacent)
    assert climb.parents == (0b010, 0b100, 0) and climb.score == 5.0 and climb.steps == 2
    assert len(score.asked) == len(set(score.asked)) == climb.families


def test_changes_that_gain_rounding_only_are_not_taken() -> None:
    class Flat(Counting):
        def local(self, families: Sequence[Family]) -> np.ndarray:
            return np.array([[1e-9 * bin(mask).count("1")] for _, mask in families])

    assert hill_climb(Flat(), ~np.eye(3, dtype=bool)).steps == 0


def test_an_empty_skeleton_stays_empty() -> None:
    assert not hill_climb(bic(4, 0), np.zeros((4, 4), dtype=bool)).matrix().any()


@pytest.mark.parametrize(
    "adjacent", [np.zeros((3, 3), dtype=bool), np.eye(4, dtype=bool), np.triu(np.ones((4, 4), dtype=bool), 1)]
)
def test_malformed_skeletons_are_refused(adjacent: np.ndarray) -> None:
    with pytest.raises(InvalidParameter, match="adjacent"):
        hill_climb(bic(4, 0), adjacent)
