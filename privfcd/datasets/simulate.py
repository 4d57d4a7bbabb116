"""Simulated federations: linear Gaussian structural equations on random DAGs.

The setting of Fed-Sparse-BNSL (arXiv:2512.01708v2), appendix B.1.1 (homogeneous) and B.1.2 (heterogeneous),
with one difference: the graph has exactly the asked number of edges, where the paper has that number in
expectation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.checks import count, positive, refuse
from privfcd.errors import InvalidParameter

__all__ = ["Simulation", "linear_gaussian"]

_WEIGHT_LOW, _WEIGHT_HIGH = 0.5, 2.0
_PARTY_WEIGHT_VARIANCE = 0.1
# Keys of the independent random streams that come from one seed.
_GRAPH, _WEIGHTS, _PARTY_WEIGHTS, _ROWS = range(4)


@dataclass(frozen=True, eq=False)
class Simulation:
    """A simulated federation; unpacks as `weights, tables = simulation`.

    Attributes
    ----------
    weights : ndarray of shape (d, d)
        The global weights; [i, j] is the weight of i -> j. Acyclic.
    tables : list of ndarray of shape (n_p, d)
        One array of rows a party, float64.
    party_weights : list of ndarray of shape (d, d)
        The weights that each party's rows were made with; equal to `weights` where the parties are alike.
    """

    weights: NDArray[np.float64]
    tables: list[NDArray[np.float64]]
    party_weights: list[NDArray[np.float64]]

    def __iter__(self) -> Iterator[Any]:
        """Yield the global weights, then the tables."""
        yield self.weights
        yield self.tables


def linear_gaussian(
    d: int,
    parties: int = 8,
    rows: int | Sequence[int] = 5000,
    seed: int = 0,
    edges: int | None = None,
    heterogeneous: bool = False,
    noise_sd: float = 1.0,
) -> Simulation:
    """Simulate parties whose rows follow x_j = sum_i B_ij x_i + e_j on a random DAG.

    The graph is uniform among the graphs with `edges` edges that agree with a uniformly random order of the
    variables. Weights are uniform on [-2, -0.5] and [0.5, 2]; e_j is N(0, noise_sd^2), the same for every
    variable, which makes the DAG identifiable.

    Parameters
    ----------
    d : int
        Number of variables.
    parties : int
        Number of parties P.
    rows : int or sequence of P ints
        Rows of every party, or of each.
    seed : int
        At least 0. The same seed gives the same simulation. Every party draws from a stream of its own: its
        rows depend neither on the number of parties nor on the others' numbers of rows.
    edges : int, optional
        Number of edges, at most d (d - 1) / 2. By default d, or all pairs where there are fewer than d.
    heterogeneous : bool
        If True, party p's weight of each present edge is N(B_ij, 0.1) (variance 0.1, independent), on the
        same graph (B.1.2). A weight can come out near 0, or with the other sign.
    noise_sd : float
        Standard deviation of e_j, above 0.

    Returns
    -------
    Simulation

    Raises
    ------
    InvalidParameter
        A parameter is outside what is accepted.

    Examples
    --------
    >>> weights, tables = linear_gaussian(5, parties=2, rows=[100, 50], seed=1)
    >>> weights.shape, [table.shape for table in tables]
    ((5, 5), [(100, 5), (50, 5)])
    """
    d, parties, seed = count("d", d), count("parties", parties), count("seed", seed, least=0)
    sizes = party_sizes(rows, parties)
    most = d * (d - 1) // 2
    number = min(d, most) if edges is None else count("edges", edges, least=0)
    if number > most:
        raise refuse("edges", edges, f"at most d (d - 1) / 2 = {most}")
    if not isinstance(heterogeneous, bool | np.bool_):
        raise refuse("heterogeneous", heterogeneous, "True or False")
    spread = positive("noise_sd", noise_sd)

    order, present = random_dag(d, number, stream(seed, _GRAPH))
    weights = np.zeros((d, d))
    weights[present] = random_weights(number, stream(seed, _WEIGHTS))
    tables, party_weights = [], []
    for p, size in enumerate(sizes):
        own = weights.copy()
        if heterogeneous:
            draws = stream(seed, _PARTY_WEIGHTS, p).standard_normal(number)
            own[present] += math.sqrt(_PARTY_WEIGHT_VARIANCE) * draws
        noise = spread * stream(seed, _ROWS, p).standard_normal((size, d))
        tables.append(solve_linear(noise, own, order))
        party_weights.append(own)
    return Simulation(weights, tables, party_weights)


def party_sizes(rows: int | Sequence[int], parties: int) -> list[int]:
    """Return each party's number of rows, from one number for all or one a party."""
    if isinstance(rows, str | bytes):
        raise refuse("rows", rows, "a whole number, or one a party")
    if not isinstance(rows, Sequence | np.ndarray):
        return [count("rows", rows)] * parties
    sizes = [count(f"rows[{p}]", size) for p, size in enumerate(rows)]
    if len(sizes) != parties:
        raise InvalidParameter(f"rows must be one number or {parties}, one a party, got {len(sizes)}")
    return sizes


def stream(seed: int, *key: int) -> np.random.Generator:
    """Return the independent random stream of a seed that belongs to `key`."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def random_dag(d: int, edges: int, generator: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return a topological order and the edges' positions in the matrix."""
    order = generator.permutation(d)
    earlier, later = np.triu_indices(d, k=1)
    chosen = generator.choice(earlier.size, size=edges, replace=False)
    present = np.zeros((d, d), dtype=np.bool_)
    present[order[earlier[chosen]], order[later[chosen]]] = True
    return order, present


def random_weights(size: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Draw weights uniformly from [-2, -0.5] and [0.5, 2]."""
    magnitudes = generator.uniform(_WEIGHT_LOW, _WEIGHT_HIGH, size)
    return np.where(generator.random(size) < 0.5, -magnitudes, magnitudes)


def solve_linear(
    noise: NDArray[np.float64], weights: NDArray[np.float64], order: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Solve X = X B + E for X, variable by variable along the topological order; E is overwritten."""
    # Parents are added one by one, not by a matrix product, whose last bits hang on the BLAS in use.
    for j in order:
        for i in np.flatnonzero(weights[:, j]):
            noise[:, j] += weights[i, j] * noise[:, i]
    return noise
