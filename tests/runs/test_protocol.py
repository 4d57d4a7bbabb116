"""Messages: sparse matrices and the bytes that they count for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privfcd.algorithms.protocol import Empty, SparseMatrix, index_bytes
from privfcd.errors import PartyFailed


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 6).flatmap(lambda d: arrays(np.float64, (d, d), elements=st.sampled_from([0.0, -0.0, 1.5, -1e300])))
)
def test_a_sparse_matrix_is_its_entries_that_are_not_zero(matrix: np.ndarray) -> None:
    sparse = SparseMatrix.of(matrix)
    np.testing.assert_array_equal(sparse.dense(), matrix)
    sparse.check(len(matrix), "someone")
    d = len(matrix)
    index = max(1, math.ceil(math.log2(d**2) / 8)) if d > 1 else 1
    assert sparse.payload_bytes() == int((matrix != 0).sum()) * (8 + index)


@pytest.mark.parametrize(("d", "size"), [(2, 1), (16, 1), (17, 2), (20, 2), (200, 2), (256, 2), (257, 3), (4096, 3)])
def test_index_bytes_are_the_papers(d: int, size: int) -> None:
    assert index_bytes(d) == size and 256**size >= d * d > 256 ** (size - 1)


def test_empty_messages_weigh_nothing() -> None:
    assert Empty().payload_bytes() == 0


@pytest.mark.parametrize(
    ("indices", "values", "d"),
    [
        ([0, 9], [1.0, 1.0], 3),
        ([-1], [1.0], 3),
        ([0, 1], [1.0], 3),
        ([[0]], [[1.0]], 3),
        ([0], [math.nan], 3),
        ([0], [math.inf], 3),
        ([0], [1.0], 4),
    ],
)
def test_malformed_matrices_are_refused_by_the_senders_name(indices: list[int], values: list[float], d: int) -> None:
    with pytest.raises(PartyFailed, match="ward-3 sent a m"):
        SparseMatrix(d, np.array(indices), np.array(values)).check(3, "ward-3")


@pytest.mark.parametrize(
    ("indices", "values"),
    [([1, 1], [1.0, 2.0]), ([0.5], [1.0]), ([1], [True]), ([1], [1 + 2j])],
    ids=["twice", "fractional", "boolean", "complex"],
)
def test_matrices_hold_real_numbers_once_each(indices: list[float], values: list[complex]) -> None:
    with pytest.raises(PartyFailed):
        SparseMatrix(3, np.array(indices), np.array(values)).check(3, "ward-3")
