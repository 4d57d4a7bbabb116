"""The sensitivity search finds every seeded fault, and never more than the claim of a right query."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from privfcd.accounting import ADD_OR_REMOVE_ONE, REPLACE_ONE, NeighboringRelation
from privfcd.algorithms.fed_sparse.greedy import GreedyDescent, GreedyScores
from privfcd.audits import search_sensitivity
from privfcd.data import ClippedGradient, ClippedMean, ColumnSquares, OctaveHistogram, SecondMoments
from privfcd.errors import InvalidParameter

WEIGHTS = ((0.0, 0.5, -0.7), (0.3, 0.0, 0.4), (0.2, 0.6, 0.0))
ZERO = ((0.0, 0.0, 0.0),) * 3


@dataclass(frozen=True)
class Own:
    """A query of one's own: an answer, a claim for replaced records, a norm."""

    answer: Callable[[np.ndarray], np.ndarray]
    claim: Callable[[int], float]
    norm: str = "l2"
    name: str = "a query of one's own"

    def evaluate(self, rows: np.ndarray) -> np.ndarray:
        return self.answer(rows)

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        return self.claim(n)


def mean_gradient(rows: np.ndarray) -> np.ndarray:
    return -rows.T @ (rows - rows @ np.array(WEIGHTS)) / len(rows)


def shortened(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))


def centred_on_own_mean(rows: np.ndarray) -> np.ndarray:
    centred = shortened(rows - rows.mean(axis=0))
    return centred.T @ centred / len(rows)


CLIP = 0.3
MEAN_CLIPPED = Own(lambda rows: np.clip(mean_gradient(rows), -CLIP, CLIP), lambda n: 2 * CLIP / n, "linf")
FAULTS = {
    "mean gradient clipped, 2C/n claimed": MEAN_CLIPPED,
    "rows clipped, but the unclipped ones are used": Own(
        lambda rows: rows.T @ rows / len(rows), lambda n: math.sqrt(2) / n
    ),
    "centred on the rows' own mean": Own(centred_on_own_mean, lambda n: math.sqrt(2) / n),
    "scaled by the rows' own maximum": Own(
        lambda rows: rows.mean(axis=0) / max(np.abs(rows).max(), 1e-9), lambda n: 2 * math.sqrt(rows_d) / n
    ),
    "smoothness constants from raw rows": Own(lambda rows: (rows**2).mean(axis=0), lambda n: math.sqrt(3) / n),
    "covariance with the add-or-remove constant": Own(
        lambda rows: shortened(rows).T @ shortened(rows) / len(rows), lambda n: 1 / n
    ),
    "overflow to NaN": Own(lambda rows: np.array([np.exp(np.abs(rows).max()) * 0.0]), lambda n: 1.0),
}
rows_d = 3


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_found(name: str) -> None:
    for seed in range(10):
        report = search_sensitivity(FAULTS[name], 50, 3, bound=1, seed=seed, evaluations=500)
        assert report.verdict == "violated", report
        assert report.first_violation is not None


@pytest.mark.parametrize("outside", [True, False])
def test_clipped_mean_gradient_is_off_by_more_than_four(outside: bool) -> None:
    for seed in range(10):
        report = search_sensitivity(MEAN_CLIPPED, 50, 3, bound=1, seed=seed, outside=outside, evaluations=500)
        assert report.ratio >= (49 if outside else 4.6), report


RIGHT = {
    "mean": (ClippedMean((1.0, 2.0, 0.5)), 0.999),
    "squares": (ColumnSquares((1.0, 2.0, 0.5)), 0.999),
    "squares, centred": (ColumnSquares((1.0, 2.0, 0.5), (0.1, 0.2, -0.3)), 0.999),
    "moments": (SecondMoments(1.5), 0.999),
    "moments, centred": (SecondMoments(1.5, (0.1, 0.2, 0.3)), 0.999),
    "gradient": (ClippedGradient(WEIGHTS, (0.3, 0.2, 0.1)), 0.7),
    "gradient at 0": (ClippedGradient(ZERO, (0.3, 0.3, 0.3)), 0.5),
    "histogram": (OctaveHistogram(3), 0.999),
}


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_OR_REMOVE_ONE], ids=["replace", "remove"])
@pytest.mark.parametrize("name", RIGHT)
def test_right_queries_peak_at_their_claim(name: str, relation: NeighboringRelation) -> None:
    query, least = RIGHT[name]
    for seed in range(3):
        report = search_sensitivity(query, 50, 3, bound=1, relation=relation, seed=seed)
        assert least <= report.ratio <= 1 + 1e-9, report
        assert report.verdict == "consistent"


def test_the_witness_is_a_pair_of_neighbours_with_that_distance() -> None:
    for relation in (REPLACE_ONE, ADD_OR_REMOVE_ONE):
        query = ClippedMean((1.0, 1.0))
        report = search_sensitivity(query, 8, 2, bound=1, relation=relation, evaluations=300)
        rows, neighbour = report.witness
        if relation is REPLACE_ONE:
            assert np.sum(np.any(rows != neighbour, axis=1)) == 1
            other = query.evaluate(neighbour)
        else:
            assert len(neighbour) == len(rows) - 1
            other = query.evaluate(neighbour) * len(neighbour) / len(rows)
        assert np.linalg.norm(query.evaluate(rows) - other) == report.found


@pytest.mark.parametrize(("norm", "found"), [("l1", 6.0), ("l2", math.sqrt(12)), ("linf", 2.0)])
def test_norms(norm: str, found: float) -> None:
    query = Own(lambda rows: np.clip(rows, -1, 1).sum(axis=0), lambda n: 10.0, norm)
    report = search_sensitivity(query, 5, 3, low=-1, high=[1, 1, 1])
    assert report.found == pytest.approx(found)
    assert report.verdict == ("consistent" if found >= 5 else "inconclusive")


def test_the_search_stays_in_the_box_where_it_should() -> None:
    seen: list[np.ndarray] = []

    def answer(rows: np.ndarray) -> np.ndarray:
        seen.append(rows)
        return rows.mean(axis=0)

    search_sensitivity(Own(answer, lambda n: 0.5), 4, 2, low=[1, -3], high=[2, -1], outside=False, evaluations=300)
    every = np.concatenate(seen)
    assert np.all(every.min(axis=0) == [1, -3]) and np.all(every.max(axis=0) == [2, -1])


def test_scores_of_a_mean_are_compared_with_a_record_that_contributes_nothing() -> None:
    weights, pull = ((0.0, 0.3), (0.0, 0.0)), ((0.0, 0.01), (-0.01, 0.0))
    for offset in (None, (0.2, -0.1)):
        descent = GreedyDescent((1.0, 2.0), clip=1.0, l1=0.05, ridge=1.0, noise_multiplier=1.0, offset=offset)
        query = GreedyScores(descent, weights, pull)
        for relation in (REPLACE_ONE, ADD_OR_REMOVE_ONE):
            report = search_sensitivity(query, 50, 2, bound=1, relation=relation, removal=offset or (0.0, 0.0))
            assert 0.999 <= report.ratio <= 1 + 1e-9, report
            assert len(report.witness[1]) == 50


def test_sums_are_compared_as_they_are_without_averaging() -> None:
    query = Own(lambda rows: np.clip(rows, -1, 1).sum(axis=0), lambda n: 1.0, "linf")
    report = search_sensitivity(query, 5, 2, relation=ADD_OR_REMOVE_ONE, removal="plain")
    assert report.ratio == pytest.approx(1.0)


def test_sensitivity_zero() -> None:
    constant = Own(lambda rows: np.ones(3), lambda n: 0.0)
    assert (search_sensitivity(constant, 5, 2).verdict, search_sensitivity(constant, 5, 2).ratio) == ("consistent", 0.0)
    lying = Own(lambda rows: rows.mean(axis=0), lambda n: 0.0)
    report = search_sensitivity(lying, 5, 2)
    assert report.verdict == "violated" and report.ratio == math.inf
    json.dumps(report.as_dict(), allow_nan=False)


def test_the_search_spends_what_it_is_given_and_repeats() -> None:
    calls = [0]

    def answer(rows: np.ndarray) -> np.ndarray:
        calls[0] += 1
        return rows.mean(axis=0)

    query = Own(answer, lambda n: 1.0)
    first, again = (search_sensitivity(query, 6, 2, evaluations=77, seed=5) for _ in range(2))
    assert first == again and first.evaluations == 77 and calls[0] == 4 * 77
    np.testing.assert_array_equal(first.witness[0], again.witness[0])


def test_report_text_and_json() -> None:
    report = search_sensitivity(MEAN_CLIPPED, 50, 3, bound=1)
    assert "VIOLATED" in str(report) and "refuted after" in str(report)
    data = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert data["verdict"] == "violated" and np.shape(data["witness"]["rows"]) == (50, 3)
    assert "proves nothing" in str(search_sensitivity(ClippedMean((1.0,)), 5, 1))


@pytest.mark.parametrize(
    "arguments",
    [
        {"n": 1},
        {"d": 0},
        {"evaluations": 0},
        {"seed": -1},
        {"bound": 0.0},
        {"bound": 1.0, "low": -1.0},
        {"low": 1.0, "high": 1.0},
        {"low": [0.0, math.nan, 0.0]},
        {"high": [1.0, 1.0]},
        {"relation": "replace"},
        {"removal": "never"},
        {"removal": [0.0]},
        {"query": ClippedMean((1.0, math.inf, 1.0))},
        {"query": ClippedMean((1.0, 1.0))},
        {"query": Own(lambda rows: rows[0], lambda n: math.nan)},
        {"query": Own(lambda rows: rows[0], lambda n: 1.0, "l3")},
    ],
)
def test_bad_input_is_refused(arguments: dict[str, object]) -> None:
    given = {"query": ClippedMean((1.0, 1.0, 1.0)), "n": 5, "d": 3} | arguments
    with pytest.raises(InvalidParameter):
        search_sensitivity(given.pop("query"), given.pop("n"), given.pop("d"), **given)  # type: ignore[arg-type]
