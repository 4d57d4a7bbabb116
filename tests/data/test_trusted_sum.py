"""One noise on the sum over tables: drawn from every reservation, exact otherwise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from privfcd.accounting import Budget, gaussian_event
from privfcd.data.directions import DirectionMoments
from privfcd.data.histogram import OctaveHistogram
from privfcd.data.private import PrivateTable
from privfcd.data.queries import ClippedMean, SecondMoments
from privfcd.data.trusted_sum import release_sum
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.ledger import PlanPart
from privfcd.mechanisms import AnalyticGaussian, Gaussian, SimulatedNoise

PARTS = [np.random.default_rng(seed).normal(size=(n, 3)) for seed, n in enumerate((20, 30, 50))]
WHOLE = np.vstack(PARTS)


def made(multiplier: float = 1.0) -> tuple[list[PrivateTable], list[object]]:
    tables = [
        PrivateTable(rows, list("abc"), name=str(index), budget=Budget(rho=1e9), noise=SimulatedNoise(3))
        for index, rows in enumerate(PARTS)
    ]
    part = PlanPart("x", gaussian_event(1.0, multiplier), 1)
    return tables, [table.ledger.reserve([part]) for table in tables]


QUERIES = [OctaveHistogram(3), ClippedMean((1.0, 2.0, 3.0)), SecondMoments(2.0), DirectionMoments(np.eye(3))]


@pytest.mark.parametrize("query", QUERIES)
def test_the_sum_is_that_of_all_rows(query: SecondMoments) -> None:
    tables, reservations = made(1e-4)
    scale = 1e-4 * query.sensitivity(100) * (1 + 1e-12)
    mechanism = AnalyticGaussian(scale) if query.kind == "symmetric" else Gaussian(scale)
    answer = release_sum(tables, query, mechanism, "x", reservations, (1, 2))  # type: ignore[arg-type]
    value = answer.matrix if query.kind == "symmetric" else answer
    np.testing.assert_allclose(value, query.evaluate(WHOLE), atol=10 * scale)
    assert all(reservation.left("x") == 0 for reservation in reservations)  # type: ignore[attr-defined]


def test_too_little_noise_is_refused_before_rows_are_read(arm: Callable[..., PrivateTable]) -> None:
    tables, reservations = made(1.0)
    query = SecondMoments(2.0)
    for table in tables:
        arm(table)
    with pytest.raises(InvalidParameter, match="the reservation planned"):
        release_sum(tables, query, AnalyticGaussian(0.5 * query.sensitivity(100)), "x", reservations, (1,))  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="one for each of 3 tables"):
        release_sum(tables, query, AnalyticGaussian(1.0), "x", reservations[:2], (1,))  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="on the ledger of"):
        release_sum(tables, query, AnalyticGaussian(1.0), "x", reservations[::-1], (1,))  # type: ignore[arg-type]
    reservations[2].draw("x")  # type: ignore[attr-defined]
    with pytest.raises(BudgetExceeded):
        release_sum(tables, query, AnalyticGaussian(1.0), "x", reservations, (1,))  # type: ignore[arg-type]
