"""Models that the tests of the report share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import networkx as nx
import numpy as np
import pytest

import privfcd as pf
from privfcd.algorithms import edge_stability

HOSTILE_COLUMNS = (
    "<script>alert(1)</script>",
    "\U0001f600 \U0001f469\u200d⚕",
    "x" * 200,
    "שלום עולם",
    "a\u202eb\nc",
    "]]>&amp;{{ 7*7 }}{% raw %}",
)
HOSTILE_PARTIES = ('<img src="x" onerror="alert(1)">', "مستشفى", "party " * 33)

Tables = Callable[..., list[pf.PrivateTable]]


def tables_of(
    budget: pf.Budget | None = None,
    *,
    names: Sequence[str] = ("north", "south", "west"),
    columns: Sequence[str] | None = None,
    noise: Any = None,
    rows: int = 400,
    bounds: float | None = 20.0,
) -> list[pf.PrivateTable]:
    """Return tables of six variables, one for each name."""
    made = pf.simulate.linear_gaussian(d=6, parties=len(names), rows=rows, seed=1)
    source = pf.SimulatedNoise(1) if noise is None else noise
    return [
        pf.PrivateTable(part, columns, name=name, budget=budget, bounds=bounds, noise=source)
        for part, name in zip(made.tables, names, strict=True)
    ]


@pytest.fixture(scope="session")
def tables() -> Tables:
    """Make tables of six variables."""
    return tables_of


@pytest.fixture(scope="session")
def truth() -> nx.DiGraph[str]:
    """The graph that those tables come from."""
    weights = pf.simulate.linear_gaussian(d=6, parties=3, rows=2, seed=1).weights
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(f"x{i}" for i in range(6))
    graph.add_edges_from((f"x{i}", f"x{j}") for i, j in zip(*np.nonzero(weights), strict=True))
    return graph


@pytest.fixture(scope="session")
def sparse() -> pf.FedSparseBNSL:
    """A private run with simulated noise, its every parameter set, and what is known of its edges."""
    model = pf.FedSparseBNSL(
        rounds=20, updates=8, step=0.7, l1=0.05, threshold=0.25, keep=0.02, center=False, fast=False, workers=1
    ).fit(tables_of(pf.Budget(epsilon=6, delta=1e-6), rows=700))
    edge_stability(model, draws=10, seed=0)
    return model


@pytest.fixture(scope="session")
def hostile() -> pf.FedSparseBNSL:
    """A run on columns and parties whose names would break a careless page."""
    given = tables_of(pf.Budget(epsilon=9, delta=1e-6), names=HOSTILE_PARTIES, columns=HOSTILE_COLUMNS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pf.FedSparseBNSL(rounds=10, updates=8).fit(given)
