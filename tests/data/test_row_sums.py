"""Sums over records: against definitions, compiled against NumPy, independence of records, room for rounding."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.algorithms.fed_sparse.descent_gradients import RowGradient
from privfcd.algorithms.fed_sparse.losses import SQUARED, HuberLoss
from privfcd.data import fused
from privfcd.data.fused import Kernels, kernels
from privfcd.data.row_sums import BLOCK, blocked_slack, clipped_sums, finite, predictions
from privfcd.errors import InvalidParameter

ABSURD = [0.0, 5e-324, 1e-200, 1.0, -1.0, 30.0, -1e6, 1e60, -1e100, 1.7e308, -1.7e308]


@pytest.fixture(scope="module")
def compiled() -> Kernels:
    pytest.importorskip("numba")
    made = kernels(True)
    assert made is not None
    return made


def table(seed: int, n: int = 300, d: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    rows[rng.integers(n, size=n // 10)] = rng.choice(ABSURD, size=(n // 10, d))
    return rows


@pytest.mark.parametrize("offset", [np.zeros(4), np.array([0.5, -1.0, 2.0, 0.0])])
def test_sums_are_their_definition(offset: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    rows, slopes, limits = rng.normal(size=(333, 4)), rng.normal(size=(3, 333)), np.array([0.1, 1.0, 2.0, math.inf])
    expected = np.array(
        [[np.clip((rows[:, i] - offset[i]) * s, -limits[i], limits[i]).sum() for i in range(4)] for s in slopes]
    )
    np.testing.assert_allclose(clipped_sums(rows, offset, slopes, limits, None), expected, rtol=1e-12)
    weights = np.array([0.0, 2.0, 0.0, -3.0])
    np.testing.assert_allclose(predictions(rows, offset, weights, None), (rows - offset) @ weights, rtol=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n", [1, BLOCK, BLOCK + 1, 700])
def test_compiled_loops_give_the_same_bits(seed: int, n: int, compiled: Kernels) -> None:
    rng = np.random.default_rng(seed)
    rows, offset = table(seed, max(n, 10))[:n], rng.normal(size=5) * (seed % 2)
    weights = rng.normal(size=5) * (rng.random(5) < 0.6)
    with np.errstate(over="ignore", invalid="ignore"):
        plain, quick = (predictions(rows, offset, weights, way) for way in (None, compiled))
        np.testing.assert_array_equal(plain, quick)
        slopes = finite(np.array([rows[:, 0] - plain, rows[:, 1] * 3]))
    limits = np.array([0.5, 1.0, 2.0, 4.0, 1e30])
    np.testing.assert_array_equal(*(clipped_sums(rows, offset, slopes, limits, way) for way in (None, compiled)))


@pytest.mark.parametrize("loss", [SQUARED, HuberLoss(0.7)])
@pytest.mark.parametrize("fast", [False, True])
def test_a_records_part_depends_on_this_record_only(loss: HuberLoss, fast: bool, compiled: Kernels) -> None:
    """The sum over a table is the sum over its records taken alone, wherever they stand: exactly, term by term."""
    way = compiled if fast else None
    rows, limits, rng = table(3), np.array([0.5, 1.0, 2.0, 4.0, 8.0]), np.random.default_rng(1)
    weights = rng.normal(size=(5, 5)) * (1 - np.eye(5)) * 10
    order = rng.permutation(len(rows))
    answers = []
    for records in (rows, rows[order], rows[:137]):
        parts = []
        for single in range(len(records)):
            data = RowGradient(records[single : single + 1], np.zeros(5), limits, 1, loss, way)
            data.start(weights)
            parts.append(data.gradient.copy())
        whole = RowGradient(records, np.zeros(5), limits, 1, loss, way)
        whole.start(weights)
        exact = np.array(
            [[float(sum(map(Fraction, np.array(parts)[:, j, i].tolist()))) for i in range(5)] for j in range(5)]
        )
        room = (blocked_slack(len(records)) - 1) * limits
        assert (np.abs(whole.gradient - exact) <= room).all()
        answers.append(exact)
    np.testing.assert_array_equal(answers[0], answers[1])


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 2000), st.integers(0, 10**6))
def test_rounding_stays_within_what_is_allowed(n: int, seed: int) -> None:
    """Two neighbours' float sums differ by no more than the exact sensitivity times the slack."""
    rng = np.random.default_rng(seed)
    rows = np.full((n, 2), 1.0) + rng.random((n, 2)) * 1e-9
    slopes = rng.choice([1 / 3, -1 / 3, 0.1], size=(1, n))
    other, moved = rows.copy(), slopes.copy()
    place = int(rng.integers(n))
    rows[place], slopes[0, place] = 1e9, 1.0
    other[place], moved[0, place] = 1e9, -1.0
    limits = np.array([0.7, 1.3])
    one, two = (clipped_sums(r, np.zeros(2), s, limits, None) for r, s in ((rows, slopes), (other, moved)))
    assert (np.abs(one - two)[0] <= 2 * limits * blocked_slack(n)).all()


def test_variables_whose_weights_stay_are_not_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 3))
    data = RowGradient(rows, np.zeros(3), np.full(3, 2.0), 50, SQUARED, None)
    weights = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.5, 0.0, 0.0]])
    data.start(weights)
    done: list[int] = []
    monkeypatch.setattr(data, "_refresh", lambda variables: done.extend(variables.tolist()))
    data.start(weights.copy())
    changed = weights.copy()
    changed[1, 2] = 3.0
    data.start(changed)
    data.move(0, 2, np.array([0.7, 0.0, 0.0]))
    assert done == [1, 2]


def test_without_numba_loops_are_numpys_and_asking_for_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused.importlib.util, "find_spec", lambda name: None)
    assert kernels(None) is None and kernels(False) is None
    with pytest.raises(InvalidParameter, match=r"pip install 'privfcd\[fast\]'"):
        kernels(True)
    with pytest.raises(InvalidParameter, match="fast must be True, False or None"):
        kernels("yes")  # type: ignore[arg-type]


def test_compiled_code_may_have_nowhere_to_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = pytest.importorskip("numba")
    plain = numba.njit

    def nowhere(**options: bool) -> object:
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return plain(**options)

    monkeypatch.setattr(numba, "njit", nowhere)
    made = fused._compiled.__wrapped__()
    out = np.zeros(2)
    made.predict(np.ones((2, 2)), np.zeros(2), np.array([1]), np.array([3.0]), out)
    assert out.tolist() == [3.0, 3.0]
