"""EqualVarianceSearch on tables and on moments, and the test of equal variances."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy.stats import binom

from privfcd import Budget, EqualVarianceSearch
from privfcd.algorithms.equal_variance import EqualVarianceWarning, order_search
from privfcd.algorithms.equal_variance.diagnostics import equal_variance_test, variance_notes
from privfcd.algorithms.equal_variance.law import Law
from privfcd.datasets.simulate import linear_gaussian
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.moments import Moments, NoiseTerm

NAMES = ("a", "b", "c", "d")


def test_open_tables_are_learnt_exactly(
    many: list[np.ndarray], weights: np.ndarray, tables: Callable[..., Any]
) -> None:
    model = EqualVarianceSearch().fit(tables(many))
    assert np.array_equal(model.adjacency_matrix_ != 0, weights != 0)
    np.testing.assert_allclose(model.adjacency_matrix_, weights, atol=0.1)
    assert set(model.causal_graph_.edges) == {("a", "b"), ("a", "d"), ("b", "c"), ("d", "c")}
    assert nx.is_directed_acyclic_graph(model.causal_graph_)
    assert model.order_[0] == "a" and model.order_[-1] == "c"
    assert model.equal_variances_.equal and model.equal_variances_.warning is None
    np.testing.assert_allclose(model.residual_variances_, 1, atol=0.1)
    assert model.privacy_spent_[0] == np.inf
    assert len(model.privacy_report_) == 2
    assert model.rule_["threshold"] == 0.3 and "release" in model.rule_
    assert model.n_features_in_ == 4 and list(model.feature_names_in_) == list(NAMES)
    assert model.bytes_exchanged_ > 0
    assert model.history_[0]["edges"] == 4


def test_a_private_fit_charges_once_and_its_moments_are_learnt_from_for_nothing(
    many: list[np.ndarray], weights: np.ndarray, tables: Callable[..., Any]
) -> None:
    given = tables(many, budget=Budget(4.0, 1e-6))
    model = EqualVarianceSearch().fit(given)
    assert np.array_equal(model.adjacency_matrix_ != 0, weights != 0)
    assert 0 < model.privacy_spent_[0] <= 4.0 and model.privacy_spent_[1] <= 1e-6
    before = [table.ledger.epsilon(1e-6) if hasattr(table.ledger, "epsilon") else None for table in given]
    again = EqualVarianceSearch().fit(model.moments_)
    after = [table.ledger.epsilon(1e-6) if hasattr(table.ledger, "epsilon") else None for table in given]
    assert before == after
    assert np.array_equal(again.adjacency_matrix_, model.adjacency_matrix_)
    assert again.privacy_report_ is None and again.bytes_exchanged_ == 0
    assert again.privacy_spent_ == (0.0, 0.0)
    with pytest.raises(BudgetExceeded):
        EqualVarianceSearch().fit(given)


def test_moments_of_parties_are_pooled_and_aligned(many: list[np.ndarray]) -> None:
    first = Moments(many[0].T @ many[0] / 5000, 5000, NAMES)
    turned = many[1][:, ::-1]
    second = Moments(turned.T @ turned / 5000, 5000, NAMES[::-1])
    both = EqualVarianceSearch().fit([first, second])
    stacked = np.vstack(many)
    one = EqualVarianceSearch().fit(Moments(stacked.T @ stacked / 10_000, 10_000, NAMES))
    np.testing.assert_allclose(both.adjacency_matrix_, one.adjacency_matrix_, atol=1e-10)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("release", "coordinates"),
        ("threshold", -0.1),
        ("level", 0),
        ("test_level", 1),
        ("tau", -1.0),
        ("cautions", "12"),
        ("cautions", []),
        ("cautions", [-1.0]),
        ("local", 1),
        ("center", "yes"),
    ],
)
def test_parameters_are_checked_before_a_charge(
    option: str, value: object, tables: Callable[..., Any], arm: Callable[..., Any]
) -> None:
    given = [arm(table) for table in tables(budget=Budget(1.0, 1e-6))]
    left = [table.ledger.left() for table in given]
    with pytest.raises(InvalidParameter, match=option):
        EqualVarianceSearch(**{option: value}).fit(given)
    assert [table.ledger.left() for table in given] == left


@pytest.mark.parametrize(
    ("option", "value"), [("epsilon", 1.0), ("row_norm", 2.0), ("center", True), ("release", "exact")]
)
def test_options_of_a_release_are_refused_with_moments(option: str, value: object) -> None:
    with pytest.raises(InvalidParameter, match=option):
        EqualVarianceSearch(**{option: value}).fit(Moments(np.eye(2), 10, ("a", "b")))


def test_unequal_variances_warn_and_point_elsewhere() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(4000, 3)) * [1.0, 1.0, 3.0]
    with pytest.warns(EqualVarianceWarning, match="GES or PC from the same Moments"):
        model = EqualVarianceSearch().fit(Moments(rows.T @ rows / 4000, 4000, NAMES[:3]))
    assert not model.equal_variances_.equal
    assert model.equal_variances_.p_value < 1e-6
    assert model.equal_variances_.degrees == 2


def _released(seed: int, effective: float | None, scale: np.ndarray, rows: int = 2000) -> Moments:
    """Moments of 8 variables with the given error scales, with noise as a preconditioned release leaves it."""
    weights, (table,) = linear_gaussian(8, parties=1, rows=rows, seed=seed)
    through = np.eye(8) - weights
    table = table @ through * scale @ np.linalg.inv(through)
    matrix = table.T @ table / rows
    names = tuple("abcdefgh")
    if effective is None:
        return Moments((matrix + matrix.T) / 2, rows, names)
    sd, carry = np.sqrt(2 / effective), np.linalg.inv(through).T
    rng = np.random.default_rng([seed, 5])
    upper = np.triu(rng.normal(size=(8, 8)) * sd / np.sqrt(2), 1)
    matrix = matrix + carry @ (upper + upper.T + np.diag(rng.normal(size=8) * sd)) @ carry.T
    return Moments((matrix + matrix.T) / 2, rows, names, (NoiseTerm(sd, carry),))


def _rejections(runs: int, effective: float | None, scale: np.ndarray, level: float, first: int) -> int:
    count = 0
    for seed in range(first, first + runs):
        moments = _released(seed, effective, scale)
        found = order_search(moments, cautions=(1.0,), polish=False)
        count += not equal_variance_test(Law.of(moments), found.structure, level).equal
    return count


@pytest.mark.parametrize("effective", [None, 1000.0])
def test_the_test_keeps_its_level(effective: float | None) -> None:
    runs, level = 150, 0.1
    count = _rejections(runs, effective, np.ones(8), level, 20_000)
    low, high = binom.ppf([1e-5, 1 - 1e-5], runs, level)
    assert low <= count <= high


@pytest.mark.parametrize("effective", [None, 1000.0])
def test_the_test_has_power(effective: float | None) -> None:
    scale = np.sqrt(np.linspace(0.7, 1.6, 8))
    assert _rejections(20, effective, scale, 0.01, 30_000) >= 18


def test_statistic_without_noise_is_a_sum_of_squares() -> None:
    matrix = np.diag([1.0, 1.2, 0.9])
    found = equal_variance_test(Law.of(Moments(matrix, 500, ("a", "b", "c"))), np.zeros((3, 3)))
    common = np.mean([1.0, 1.2, 0.9])
    assert found.common == pytest.approx(common)
    expected = ((np.diag(matrix) - common) ** 2).sum() / (2 * common**2 / 500)
    assert found.statistic == pytest.approx(expected)
    np.testing.assert_allclose(found.sds, np.sqrt(2 * common**2 / 500))


def test_one_column_has_nothing_to_compare() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = EqualVarianceSearch().fit(Moments(np.eye(1), 10, ("a",)))
    assert model.equal_variances_.equal and model.order_ == ["a"]


def _exact(rows: np.ndarray) -> Moments:
    matrix = np.cov(rows.T, bias=True)
    return Moments((matrix + matrix.T) / 2, len(rows), tuple(f"x{j}" for j in range(rows.shape[1])))


def test_learners_note_standardised_columns_and_no_skewed_errors() -> None:
    """Of 8 graphs with 10 variables: none with equal variances, Gaussian or exponential, and all standardised ones."""
    found = np.zeros(3, dtype=int)
    for seed in range(100, 108):
        weights, (rows,) = linear_gaussian(10, parties=1, rows=4000, seed=seed)
        errors = np.random.default_rng(seed).exponential(size=(4000, 10))
        skewed = errors @ np.linalg.inv(np.eye(10) - weights)
        found += [bool(variance_notes(_exact(each))) for each in (rows, skewed, rows / rows.std(axis=0))]
    assert found.tolist() == [0, 0, 8]


def test_the_test_abstains_where_the_noise_is_loud() -> None:
    moments = _released(40_000, 100.0, np.ones(8))
    found = order_search(moments, polish=False)
    test = equal_variance_test(Law.of(moments), found.structure)
    assert test.loud and test.equal and test.warning is None
    assert "could not be tested" in variance_notes(moments)[0]
