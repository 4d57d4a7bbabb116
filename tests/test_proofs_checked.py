"""Claims of sensitivity on the witnesses that once broke them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from privfcd.accounting import ADD_OR_REMOVE_ONE, Budget, gaussian_event
from privfcd.data.contingency import ContingencyTables
from privfcd.data.directions import DirectionMoments, LinearMoments
from privfcd.data.histogram import OctaveHistogram
from privfcd.data.private import PrivateTable
from privfcd.data.queries import ClippedGradient, IntegerQuery, Query, SecondMoments
from privfcd.data.trusted_sum import release_sum
from privfcd.errors import InvalidParameter
from privfcd.ledger import Ledger, PlanPart
from privfcd.mechanisms import AnalyticGaussian, SimulatedNoise

N, D = 101, 20


class OtherOrder(np.ndarray):
    """Rows whose products with a matrix are added up from the other end where the number of rows is odd.

    A matrix library may do that: OpenBLAS 0.3.31 does other products for 2501 rows of 20 columns than for 2500.
    """

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [part.view(np.ndarray) if isinstance(part, OtherOrder) else part for part in inputs]
        if ufunc is np.matmul and plain[1].shape[0] == D:
            order = range(D) if len(plain[0]) % 2 else reversed(range(D))
            answer = sum(plain[0][:, i, None] * plain[1][i] for i in order)
        else:
            answer = getattr(ufunc, method)(*plain, **options)
        return answer.view(OtherOrder) if isinstance(answer, np.ndarray) else answer


def _cancelling() -> tuple[np.ndarray, np.ndarray]:
    """Return rows in a subspace, and a matrix whose columns are orthogonal to it: products are rounding errors."""
    rng = np.random.default_rng(0)
    basis = rng.normal(size=(D - 4, D))
    rows = rng.normal(size=(N, D - 4)) @ basis
    linear = np.zeros((D, D))
    linear[:, -4:] = np.linalg.svd(basis)[2][-4:].T
    return rows, linear


def _moved(query: Query, rows: np.ndarray) -> float:
    """Return by how much taking out the first record moves the answer, in units of what the query states."""
    declared = len(rows) - 1
    if isinstance(query, IntegerQuery):
        parts = [query.exact(some, declared) for some in (rows, rows[1:])]
        change = (parts[0].numbers - parts[1].numbers) * parts[0].unit
    else:
        change = query.evaluate(rows, declared) - query.evaluate(rows[1:], declared)
    return float(np.linalg.norm(change)) / query.sensitivity(declared, ADD_OR_REMOVE_ONE)


def test_directions_of_a_record_do_not_depend_on_the_others() -> None:
    rows, linear = _cancelling()
    query = DirectionMoments(linear)
    query.check(D)
    assert _moved(query, rows.view(OtherOrder)) <= 1


def test_clipped_products_of_a_record_do_not_depend_on_the_others() -> None:
    rows, linear = _cancelling()
    query = LinearMoments(linear * 1e20, 1.0)
    query.check(D)
    assert _moved(query, rows.view(OtherOrder)) <= 1


def test_clipped_gradients_of_a_record_do_not_depend_on_the_others() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(N, D)) * 1e30
    weights = np.zeros((D, D))
    weights[: D - 4, -4:] = rng.normal(size=(D - 4, 4))
    rows[:, -4:] = rows[:, : D - 4] @ weights[: D - 4, -4:]
    query = ClippedGradient(tuple(map(tuple, weights.tolist())), (1.0,) * D)
    query.check(D)
    assert _moved(query, rows.view(OtherOrder)) <= 1


def test_octave_histograms_need_no_allowance_for_quotients() -> None:
    assert _moved(OctaveHistogram(3), np.ones((999_984, 3))) <= 1


def test_a_trusted_sum_refuses_tables_of_one_ledger() -> None:
    rows, noise, multiplier = np.random.default_rng(0).normal(size=(50, 3)), SimulatedNoise(1), 3.0
    ledger = Ledger(Budget(epsilon=50, delta=1e-6), name="one")
    tables = [PrivateTable(rows, ledger=ledger, noise=noise) for _ in range(2)]
    part = (PlanPart("sum", gaussian_event(1.0, multiplier), 1),)
    reservations = [ledger.reserve(part, name, delta=1e-7) for name in ("first", "second")]
    query = SecondMoments(1.0)
    mechanism = AnalyticGaussian(multiplier * query.sensitivity(100) * (1 + 1e-12))
    with pytest.raises(InvalidParameter):
        release_sum(tables, query, mechanism, "sum", reservations, (1,))


@pytest.mark.parametrize(("levels", "given"), [(2, 64), (3, 41)])
def test_contingency_tables_beyond_64_bits_are_refused(levels: int, given: int) -> None:
    d = given + 2
    query = ContingencyTables((levels,) * d, np.array([0]), np.array([1]), np.arange(2, d)[None, :])
    assert math.prod((levels,) * d) > 2**64
    with pytest.raises(InvalidParameter):
        query.check(d)
