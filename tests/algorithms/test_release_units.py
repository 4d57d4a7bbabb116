"""Releases in rounds of columns that are not alike: other units, few values."""

from __future__ import annotations

import numpy as np
import pytest

from privfcd.accounting import Budget
from privfcd.algorithms import MomentsWarning, release_moments
from privfcd.data.private import PrivateTable
from privfcd.mechanisms import SimulatedNoise
from privfcd.runs import learn


def unlike(kind: str, seed: int) -> list[np.ndarray]:
    """Return three parties' Gaussian columns of very different sizes."""
    rng = np.random.default_rng(seed)
    if kind == "independent":
        return [rng.normal(size=(2000, 4)) * [0.5, 1, 10, 100] for _ in range(3)]
    if kind == "nearly the same size":
        return [rng.normal(size=(2000, 3)) * [0.5, 10, 10] for _ in range(3)]
    parts = []
    for _ in range(3):
        age = 14 * rng.normal(size=2000)
        parts.append(np.c_[age, 3 * age + 40 * rng.normal(size=2000), 0.5 * rng.normal(size=2000)])
    return parts


@pytest.mark.parametrize("kind", ["independent", "nearly the same size", "hospital"])
@pytest.mark.parametrize("epsilon", [1.0, 10.0])
def test_columns_in_different_units_have_the_variances_that_they_have(kind: str, epsilon: float) -> None:
    parts = unlike(kind, seed=1000)
    exact = sum(part.T @ part for part in parts) / 6000
    tables = [
        PrivateTable(part, name=str(k), budget=Budget(epsilon, 1e-7), noise=SimulatedNoise(k))
        for k, part in enumerate(parts)
    ]
    released = release_moments(tables, method="preconditioned")
    ratios = np.diag(released.moments.matrix) / np.diag(exact)
    assert 0.7 < ratios.min() and ratios.max() < 1.4
    assert "unknown" not in released.rule
    scale = np.sqrt(np.diag(exact))
    assert np.abs((released.moments.matrix - exact) / np.outer(scale, scale)).max() < 0.4
    assert ("units" in released.rule) == (kind != "nearly the same size")


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_marks_have_the_moments_that_they_have(share: float) -> None:
    rng = np.random.default_rng(1001)
    parts = [np.c_[rng.normal(size=(2000, 3)), rng.random(2000) < share] for _ in range(3)]
    tables = [
        PrivateTable(part, name=str(k), budget=Budget(10.0, 1e-7), noise=SimulatedNoise(k))
        for k, part in enumerate(parts)
    ]
    released = release_moments(tables, method="preconditioned", center=True)
    exact = sum((part - part.mean(axis=0)).T @ (part - part.mean(axis=0)) for part in parts) / 6000
    assert "unknown" not in released.rule
    size = np.sqrt(np.diag(exact))
    assert np.abs((released.moments.matrix - exact) / np.outer(size, size)).max() < 0.1


def test_a_column_of_which_nothing_can_be_known_is_named() -> None:
    rng = np.random.default_rng(1002)
    parts = [np.c_[rng.normal(size=(2000, 3)), 1e-3 * (rng.random(2000) < 0.002)] for _ in range(3)]
    tables = [
        PrivateTable(part, name=str(k), budget=Budget(3.0, 1e-7), noise=SimulatedNoise(k))
        for k, part in enumerate(parts)
    ]
    with pytest.warns(MomentsWarning, match="Nothing is known of 'x3'"):
        released = release_moments(tables, method="preconditioned", center=True)
    assert released.rule["unknown"] == ["x3"]
    assert any("'x3'" in note for note in learn(released, method="ges").notes_)
