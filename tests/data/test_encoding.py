"""Discrete records as numbers of one length, and tables that are encoded behind their ledger."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privfcd.accounting import Budget, NeighboringRelation
from privfcd.audits import search_sensitivity
from privfcd.data.encoding import CONSTANT, Contrasts, corners
from privfcd.data.private import PrivateTable
from privfcd.data.queries import SecondMoments
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import AnalyticGaussian, SimulatedNoise

LEVELS = (2, 3, 4)
NAMES = ("a", "b", "c")


def rows_of(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, level, n) for level in LEVELS]).astype(float)


class Doubling:
    """Every number twice, with names that say so."""

    def check(self, d: int) -> None:
        if d > 50:
            raise InvalidParameter("too wide")

    def columns(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{name}{k}" for name in names for k in (1, 2))

    def apply(self, rows: np.ndarray) -> np.ndarray:
        return np.repeat(rows, 2, axis=1) * np.tile([1.0, 10.0], rows.shape[1])


class Dropping(Doubling):
    """An encoding that loses a record, which none may do."""

    def apply(self, rows: np.ndarray) -> np.ndarray:
        return super().apply(rows)[1:]


@pytest.mark.parametrize("levels", range(2, 7))
def test_corners_are_as_far_from_each_other(levels: int) -> None:
    gram = corners(levels) @ corners(levels).T
    np.testing.assert_allclose(gram, np.eye(levels) - 1 / levels, atol=1e-12)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3))
def test_every_record_has_one_length_whatever_it_holds(record: list[float]) -> None:
    encoding = Contrasts(LEVELS)
    encoded = encoding.apply(np.array([record]))
    assert encoded.shape == (1, 1 + 2 + 3 + 1)
    assert np.linalg.norm(encoded) == pytest.approx(encoding.row_norm, rel=1e-12)


def test_second_moments_hold_all_pairs_of_marginals() -> None:
    rows, encoding = rows_of(300, 0), Contrasts(LEVELS)
    encoded = encoding.apply(rows)
    matrix = encoded.T @ encoded / len(rows)
    one, other = encoding.blocks[1], encoding.blocks[2]
    shares = np.histogram2d(rows[:, 1], rows[:, 2], bins=(3, 4), range=((0, 3), (0, 4)))[0] / len(rows)
    np.testing.assert_allclose(matrix[np.ix_(one, other)], corners(3).T @ shares @ corners(4), atol=1e-12)
    np.testing.assert_allclose(matrix[one, encoding.constant] * 2, corners(3).T @ shares.sum(axis=1), atol=1e-12)
    assert encoding.columns(NAMES) == ("a:1", "b:1", "b:2", "c:1", "c:2", "c:3", CONSTANT)


def test_names_of_encoded_columns_never_meet() -> None:
    names = Contrasts((3, 2, 2)).columns(("a", "a:1", CONSTANT))
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("relation", [NeighboringRelation.REPLACE_ONE, NeighboringRelation.ADD_OR_REMOVE_ONE])
def test_neighbours_stay_neighbours(relation: NeighboringRelation) -> None:
    """The covariance's sensitivity at the encoding's own norm, searched through the encoding."""
    encoding = Contrasts(LEVELS)
    inner = SecondMoments(encoding.row_norm)

    class Through:
        name, norm, kind = "encoded moments", inner.norm, inner.kind

        def evaluate(self, rows: np.ndarray, n: int | None = None) -> np.ndarray:
            return inner.evaluate(encoding.apply(rows), 10)  # by the public number, whoever is left

        def sensitivity(self, n: int, relation: NeighboringRelation = NeighboringRelation.REPLACE_ONE) -> float:
            return inner.sensitivity(n, relation)

    report = search_sensitivity(
        Through(), 10, 3, low=[0, 0, 0], high=[1, 2, 3], evaluations=400, relation=relation, removal="plain"
    )
    assert report.verdict != "violated" and report.ratio > 0.7


def test_an_encoded_table_is_the_same_account_and_leaves_the_original_alone() -> None:
    rows = rows_of(50, 1)
    table = PrivateTable(rows, NAMES, bounds=[1, 2, 3])
    encoded = table.encoded(Contrasts(LEVELS))
    assert encoded.ledger is table.ledger and encoded.noise is table.noise and encoded.relation is table.relation
    assert encoded.n_rows == 50 and encoded.n_columns == 7 and encoded.bounds is None
    whole = Contrasts(LEVELS).apply(rows)
    moments = encoded.release(SecondMoments(np.inf), AnalyticGaussian(0.0)).matrix
    np.testing.assert_allclose(moments, whole.T @ whole / 50, atol=1e-12)
    again = encoded.release(SecondMoments(np.inf), AnalyticGaussian(0.0)).matrix
    np.testing.assert_array_equal(again, moments)
    plain = table.release(SecondMoments(np.inf), AnalyticGaussian(0.0)).matrix
    np.testing.assert_allclose(plain, rows.T @ rows / 50, atol=1e-12)
    assert table.n_columns == 3 and table.columns == NAMES and table.bounds == (1.0, 2.0, 3.0)
    assert len(table.ledger.entries()) == 3


def test_two_encodings_and_orders_apply_in_turn() -> None:
    rows = rows_of(20, 2)
    table = PrivateTable(rows, NAMES)
    made = table.reordered(("c", "a", "b")).encoded(Doubling()).reordered(("b2", "a1", "c2", "c1", "b1", "a2"))
    made = made.encoded(Doubling())
    assert made.columns[:2] == ("b21", "b22") and made.n_columns == 12
    inner = np.column_stack([10 * rows[:, 1], rows[:, 0], 10 * rows[:, 2], rows[:, 2], rows[:, 1], 10 * rows[:, 0]])
    expected = np.repeat(inner, 2, axis=1) * np.tile([1.0, 10.0], 6)
    for _ in range(2):
        found = made.release(SecondMoments(np.inf), AnalyticGaussian(0.0)).matrix
        np.testing.assert_allclose(found, expected.T @ expected / 20, rtol=1e-12)


def test_encoding_reads_nothing_and_is_charged_before_it_is_applied(
    arm: Callable[..., PrivateTable], rows_touched: type[BaseException]
) -> None:
    encoding = Contrasts(LEVELS)
    table = arm(PrivateTable(rows_of(50, 3), NAMES, budget=Budget(rho=1), noise=SimulatedNoise(0)))
    encoded = table.encoded(encoding)
    query = SecondMoments(encoding.row_norm)
    mechanism = AnalyticGaussian(query.sensitivity(50))
    assert not table.ledger.entries()
    with pytest.raises(rows_touched):
        encoded.release(query, mechanism)
    assert len(table.ledger.entries()) == 1
    with pytest.raises(InvalidParameter, match="levels"):
        table.encoded(Contrasts((2, 3)))


def test_noise_of_an_encoded_table_is_not_that_of_the_original() -> None:
    table = PrivateTable(np.ones((20, 2)), ("a", "b"), budget=Budget(rho=100), noise=SimulatedNoise(0))
    encoded = table.encoded(Doubling()).encoded(Doubling())
    query, wide = SecondMoments(1.0), SecondMoments(1.0)
    one = table.release(query, AnalyticGaussian(1.0)).matrix
    other = encoded.release(wide, AnalyticGaussian(1.0)).matrix
    assert not np.allclose(np.diff(one.ravel())[:2], np.diff(other.ravel())[:2])


def test_an_encoding_that_loses_records_is_refused() -> None:
    table = PrivateTable(rows_of(20, 4), NAMES).encoded(Dropping())
    with pytest.raises(InvalidParameter, match="one record for each record"):
        table.release(SecondMoments(1.0), AnalyticGaussian(0.0))
