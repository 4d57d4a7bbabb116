"""A small federation with a known graph, for the tests of algorithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from privfcd.algorithms.fed_sparse import FedSparseBNSL
from privfcd.data.private import PrivateTable
from privfcd.mechanisms import SimulatedNoise

NAMES = ("a", "b", "c", "d")
WEIGHTS = np.array([[0, 1.5, 0, 0.8], [0, 0, -1.2, 0], [0, 0, 0, 0], [0, 0, 1.0, 0]])
"""a -> b -> c <- d <- a."""


def simulated(parties: int = 3, rows: int = 200, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    inverse = np.linalg.inv(np.eye(4) - WEIGHTS)
    return [rng.normal(size=(rows, 4)) @ inverse for _ in range(parties)]


@pytest.fixture(scope="session")
def parts() -> list[np.ndarray]:
    """Rows of three parties."""
    return simulated()


@pytest.fixture(scope="session")
def many() -> list[np.ndarray]:
    """Rows of two parties that have enough of them for a histogram under much noise."""
    return simulated(parties=2, rows=5000, seed=1)


@pytest.fixture(scope="session")
def weights() -> np.ndarray:
    """The weights that the rows were made with."""
    return WEIGHTS


@pytest.fixture
def tables(parts: list[np.ndarray]) -> Callable[..., list[PrivateTable]]:
    """Make fresh tables; keywords go to every table, or to each of them where they are lists."""

    def make(rows: list[np.ndarray] = parts, **each: Any) -> list[PrivateTable]:
        made = []
        for index, part in enumerate(rows):
            own = {key: value[index] if isinstance(value, list) else value for key, value in each.items()}
            arguments = {"columns": NAMES, "name": f"ward-{index}", "noise": SimulatedNoise(7), **own}
            made.append(PrivateTable(part, **arguments))
        return made

    return make


@pytest.fixture(scope="session")
def model() -> Callable[..., FedSparseBNSL]:
    """An estimator with every parameter set, so that defaults do not matter."""

    def make(**changes: Any) -> FedSparseBNSL:
        parameters = {
            **{"rounds": 3, "updates": 4, "clip": None, "step": 0.5, "l1": 0.1, "rho1": 1000.0, "rho2": 1.0},
            **{"threshold": 0.3, "center": False, "smoothness": None, "epsilon": None, "delta": None},
            **{"noise_multiplier": None, "bounds_share": 0.05, "mean_share": 0.1, "smoothness_share": 0.2},
            **{"refit_share": 0.0, "keep": 0.0, "loss": "squared", "mechanisms": "gumbel-gaussian"},
            **{"release": "coordinates", "workers": 1, "fast": False},
        }
        return FedSparseBNSL(**{**parameters, **changes})

    return make
