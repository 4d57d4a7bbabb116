"""Scores that are learnt from outputs of every kind."""

from __future__ import annotations

import numpy as np
import pytest

from privfcd.audits.scores import as_outputs, has_to_be_printed, learn_scores
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import NoisyCovariance


def separation(scores: list[np.ndarray]) -> float:
    """The chance that a run of world 1 scores above one of world 0, ties halved."""
    first, second = scores
    return float(np.mean((second[:, None] > first) + 0.5 * (second[:, None] == first)))


def best(train: list[np.ndarray], test: list[np.ndarray]) -> float:
    return max(separation([score(outputs) for outputs in test]) for score in learn_scores(*train))


def test_frequencies_of_labels() -> None:
    rng = np.random.default_rng(0)
    draw = [lambda p=p: rng.choice(["a", "b", "c"], size=2000, p=p) for p in ([0.1, 0.8, 0.1], [0.4, 0.2, 0.4])]
    train, test = [one() for one in draw], [one()[:500] for one in draw]
    assert best(train, test) == pytest.approx(0.8, abs=0.04)
    (score,) = learn_scores(*train)
    assert score(np.array(["never seen"])) == 0.0


def test_frequencies_of_rows_of_integers() -> None:
    """Both bits are fair coins in both worlds; only whether they agree tells."""
    rng = np.random.default_rng(1)

    def draw(agree: float, n: int) -> np.ndarray:
        bit = rng.integers(2, size=n)
        return np.column_stack([bit, np.where(rng.random(n) < agree, bit, 1 - bit)])

    assert best([draw(0.2, 2000), draw(0.8, 2000)], [draw(0.2, 500), draw(0.8, 500)]) == pytest.approx(0.8, abs=0.04)


def test_numbers_with_equal_means() -> None:
    rng = np.random.default_rng(2)
    train, test = ([rng.normal(0, 1, n), rng.normal(0, 4, n)] for n in (2000, 500))
    assert best(train, test) > 0.8


def test_correlated_vectors() -> None:
    """The worlds differ along a direction in which there is hardly any noise."""
    rng = np.random.default_rng(3)

    def draw(shift: float, n: int) -> np.ndarray:
        common = 10 * rng.normal(size=n)
        return np.column_stack([common + 0.1 * rng.normal(size=n) + shift, common])

    assert best([draw(0, 1000), draw(0.3, 1000)], [draw(0, 300), draw(0.3, 300)]) > 0.95


def test_many_features() -> None:
    rng = np.random.default_rng(4)
    train, test = ([rng.normal(0, 1, (n, 10, 20)), rng.normal(0.2, 1, (n, 10, 20))] for n in (500, 300))
    assert best(train, test) > 0.9


def test_a_constant_coordinate_that_tells_all() -> None:
    train = [np.column_stack([np.random.default_rng(5).normal(size=100), np.full(100, v)]) for v in (0.0, 1.0)]
    assert best(train, train) == 1.0


def test_outputs_are_numbers_where_they_can_be() -> None:
    assert as_outputs([1.0, 2.0]).shape == (2,)
    assert as_outputs([np.zeros(2), np.ones(2)]).shape == (2, 2)
    assert as_outputs([NoisyCovariance(np.eye(2), 1.0)] * 3).shape == (3, 2, 2)
    assert not has_to_be_printed([1, True, np.float64(2.0), np.zeros(3)])
    for values in ([None, 1], ["a"], [("a", 1)], [{1: 2}]):
        assert has_to_be_printed(values)
        assert as_outputs(values, printed=True).tolist() == [repr(value) for value in values]


def test_outputs_of_different_shapes_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="one kind"):
        as_outputs([np.zeros(2), np.zeros(3)])
    with pytest.raises(InvalidParameter, match="one kind"):
        as_outputs([1.0, None])
