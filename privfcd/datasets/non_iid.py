"""Simulated parties that share a graph and nothing else: own weights, own noise, own mechanisms.

The kind of data of FedACD, section 5.3: one DAG, every party's rows from a distribution of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privfcd.checks import count, positive, refuse
from privfcd.datasets.interventions import Mechanism, solve_curved
from privfcd.datasets.simulate import Simulation, party_sizes, random_dag, solve_linear, stream
from privfcd.errors import InvalidParameter

MECHANISMS = ("linear", "sine", "tanh")

_GRAPH, _SIGNS, _PARTY, _ROWS = range(20, 24)


def non_iid(
    d: int,
    parties: int = 5,
    rows: int | Sequence[int] = 1000,
    seed: int = 0,
    *,
    edges: int | None = None,
    weights: tuple[float, float] = (0.25, 1.0),
    noise_sd: tuple[float, float] = (0.5, 1.5),
    mechanisms: Sequence[Mechanism] = ("linear",),
    alike: bool = False,
) -> Simulation:
    """Simulate parties over one uniformly random DAG with `edges` edges.

    Parameters
    ----------
    d, parties : int
        Numbers of variables and of parties.
    rows : int or sequence of int
        Rows of every party, or of each.
    seed : int
        At least 0; the same seed gives the same simulation, and a party's rows do not depend on the others'.
    edges : int, optional
        2 d by default, or all pairs where there are fewer.
    weights : (low, high)
        Each party's weight of each edge has the edge's sign and a size uniform in this range, above 0.
    noise_sd : (low, high)
        Each party's error of each variable has a standard deviation uniform in this range, above 0.
    mechanisms : sequence of str
        "linear", "sine" or "tanh": x_j = sum_i B_ij f(x_i) + e_j; party p has the p-th, in turn.
    alike : bool
        Whether all parties have the first party's weights and noise: data that are alike, for comparison.

    Returns
    -------
    Simulation
        `weights` are the edges' signs times the middle of the range.

    Raises
    ------
    InvalidParameter
        A parameter is outside what is accepted.
    """
    d, parties, seed = count("d", d), count("parties", parties), count("seed", seed, least=0)
    sizes = party_sizes(rows, parties)
    most = d * (d - 1) // 2
    number = min(2 * d, most) if edges is None else count("edges", edges, least=0)
    if number > most:
        raise refuse("edges", edges, f"at most d (d - 1) / 2 = {most}")
    low, high = _range("weights", weights)
    quiet, loud = _range("noise_sd", noise_sd)
    if isinstance(mechanisms, str) or not mechanisms or any(name not in MECHANISMS for name in mechanisms):
        raise refuse("mechanisms", mechanisms, f"a list of {', '.join(MECHANISMS)}")
    if not isinstance(alike, bool):
        raise refuse("alike", alike, "True or False")
    order, present = random_dag(d, number, stream(seed, _GRAPH))
    signs = np.where(stream(seed, _SIGNS).random((d, d)) < 0.5, -1.0, 1.0) * present
    tables: list[NDArray[np.float64]] = []
    party_weights: list[NDArray[np.float64]] = []
    for party, size in enumerate(sizes):
        generator = stream(seed, _PARTY, 0 if alike else party)
        own = signs * generator.uniform(low, high, (d, d))
        spread = generator.uniform(quiet, loud, d)
        noise = spread * stream(seed, _ROWS, party).standard_normal((size, d))
        mechanism = mechanisms[party % len(mechanisms)]
        if mechanism == "linear":
            tables.append(solve_linear(noise, own, order))
        else:
            tables.append(solve_curved(noise, own, order, mechanism, np.ones((d, d)), np.zeros((d, d))))
        party_weights.append(own)
    return Simulation(signs * (low + high) / 2, tables, party_weights)


def _range(name: str, values: tuple[float, float]) -> tuple[float, float]:
    if len(values) != 2:
        raise refuse(name, values, "two numbers above 0, the smaller first")
    low, high = positive(name, values[0]), positive(name, values[1])
    if low > high:
        raise InvalidParameter(f"{name} must have the smaller number first, got {values}")
    return low, high
