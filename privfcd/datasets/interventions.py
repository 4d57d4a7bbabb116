"""Simulated federations whose parties intervene on targets that nobody tells.

The setting of I-PERI (Regret-based federated causal discovery with unknown interventions, arXiv:2512.23626): an
Erdős-Rényi DAG with p expected edges, structural equations with additive Gaussian noise, parties that share the DAG
except for the edges into their own targets, and targets that are chosen so that a party's CPDAG shows a v-structure
that the DAG's does not. Rows are made in a topological order of the DAG, so every edge acts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privfcd.checks import count, positive, real, refuse
from privfcd.datasets.simulate import party_sizes, random_weights, solve_linear, stream
from privfcd.errors import InvalidParameter
from privfcd.graphs.pdag import Pdag, mutilate, node_mask, v_structures

Mechanism = Literal["linear", "sine", "tanh"]

_MECHANISMS = ("linear", "sine", "tanh")
# Keys of the independent random streams that come from one seed; those below 10 are simulate's.
_GRAPH, _WEIGHTS, _SHAPES, _SIZES, _TARGETS, _ROWS = range(10, 16)


@dataclass(frozen=True, eq=False)
class InterventionSimulation:
    """A simulated federation with interventions; unpacks as `weights, tables = simulation`.

    Attributes
    ----------
    weights : ndarray of shape (d, d)
        The common weights; [i, j] is the weight of i -> j. Acyclic. For a mechanism other than "linear" it scales the
        function of the edge.
    tables : list of ndarray of shape (n_p, d)
        One array of rows a party, float64.
    targets : tuple of tuples of int
        Each party's targets, in rising order; empty for a party without intervention.
    dag : Pdag
        The graph of `weights`.
    """

    weights: NDArray[np.float64]
    tables: list[NDArray[np.float64]]
    targets: tuple[tuple[int, ...], ...]
    dag: Pdag

    def __iter__(self) -> Iterator[Any]:
        """Yield the common weights, then the tables."""
        yield self.weights
        yield self.tables


def unknown_interventions(
    d: int,
    parties: int = 4,
    rows: int | Sequence[int] = 1000,
    seed: int = 0,
    *,
    row_choices: Sequence[int] | None = None,
    expected_edges: float | None = None,
    observational: int = 1,
    targets_per_party: int = 1,
    targets: Sequence[Iterable[int]] | None = None,
    bias: float = 1.0,
    mechanism: Mechanism = "linear",
    noise_sd: float = 1.0,
    target_sd: float | None = None,
) -> InterventionSimulation:
    """Simulate parties whose rows follow one DAG without the edges into each party's own targets.

    Each pair of variables has an edge with the same probability, directed along a uniformly random order. A variable
    that is no target follows x_j = sum_i B_ij f_ij(x_i) + e_j, with B_ij uniform on [-2, -0.5] and [0.5, 2] and e_j
    N(0, noise_sd^2); a target is its noise alone, N(0, target_sd^2). Parties share B and f.

    Parameters
    ----------
    d : int
        Number of variables.
    parties : int
        Number of parties.
    rows : int or sequence of ints
        Rows of every party, or of each.
    seed : int
        At least 0. The same seed gives the same simulation. Graph, weights, targets and each party's rows have
        streams of their own, so more rows or another mechanism do not change the graph.
    row_choices : sequence of ints, optional
        If given, each party's number of rows is drawn from these, and `rows` is not used.
    expected_edges : float, optional
        Expected number of edges, at most d (d - 1) / 2. By default d, or all pairs where there are fewer.
    observational : int
        The first so many parties have no targets; at least 0. I-PERI needs one.
    targets_per_party : int
        Number of targets of each other party; a party has fewer where fewer variables have parents.
    targets : sequence of iterables of int, optional
        Each party's targets. If given, `observational`, `targets_per_party` and `bias` are not used.
    bias : float
        In [0, 1]: probability that a target is drawn from the variables whose mutilation alone makes a v-structure
        that the DAG lacks, where there are any: those with a parent that shares a child with them, in a shielded
        collider. Otherwise it is drawn from all variables with parents (an intervention elsewhere leaves no trace).
    mechanism : {"linear", "sine", "tanh"}
        f_ij(x) is x, sin(a x + b) or tanh(a x + b), with a uniform on [0.5, 2] and b on [-1, 1], one pair an edge.
    noise_sd, target_sd : float
        Standard deviations, above 0; `target_sd` is `noise_sd` where it is not given.

    Returns
    -------
    InterventionSimulation

    Raises
    ------
    InvalidParameter
        A parameter is outside what is accepted.

    Examples
    --------
    >>> made = unknown_interventions(6, parties=3, rows=[50, 60, 70], seed=4)
    >>> [table.shape for table in made.tables], made.targets[0]
    ([(50, 6), (60, 6), (70, 6)], ())
    """
    d, parties, seed = count("d", d), count("parties", parties), count("seed", seed, least=0)
    sizes = _sizes(rows, row_choices, parties, seed)
    pairs = d * (d - 1) // 2
    mean = float(min(d, pairs)) if expected_edges is None else real("expected_edges", expected_edges)
    if not 0 <= mean <= pairs:
        raise refuse("expected_edges", expected_edges, f"from 0 to d (d - 1) / 2 = {pairs}")
    free = count("observational", observational, least=0)
    if free > parties:
        raise refuse("observational", observational, f"at most the number of parties, {parties}")
    each = count("targets_per_party", targets_per_party, least=0)
    preference = real("bias", bias, "in [0, 1]")
    if not 0 <= preference <= 1:
        raise refuse("bias", bias, "in [0, 1]")
    if mechanism not in _MECHANISMS:
        raise refuse("mechanism", mechanism, f"one of {', '.join(_MECHANISMS)}")
    sd = positive("noise_sd", noise_sd)
    cut_sd = sd if target_sd is None else positive("target_sd", target_sd)
    given = None if targets is None else _given_targets(targets, parties, d)

    order, present = _erdos_renyi(d, mean / max(pairs, 1), stream(seed, _GRAPH))
    weights = np.zeros((d, d))
    weights[present] = random_weights(int(present.sum()), stream(seed, _WEIGHTS))
    dag = Pdag.from_matrix(present)
    if given is None:
        useful = shielded_targets(dag)
        given = [()] * free + [
            _draw_targets(dag, useful, each, preference, stream(seed, _TARGETS, p)) for p in range(free, parties)
        ]
    shapes = stream(seed, _SHAPES)
    slopes, shifts = shapes.uniform(0.5, 2.0, (d, d)), shapes.uniform(-1.0, 1.0, (d, d))
    tables = []
    for p, size in enumerate(sizes):
        spread = np.full(d, sd)
        spread[list(given[p])] = cut_sd
        own = weights.copy()
        own[:, list(given[p])] = 0.0
        noise = spread * stream(seed, _ROWS, p).standard_normal((size, d))
        if mechanism == "linear":
            tables.append(solve_linear(noise, own, order))
        else:
            tables.append(solve_curved(noise, own, order, mechanism, slopes, shifts))
    return InterventionSimulation(weights, tables, tuple(given), dag)


def shielded_targets(dag: Pdag) -> tuple[int, ...]:
    """Return the nodes whose mutilation makes a v-structure that the DAG lacks, in rising order.

    They are the nodes b that share a child c with one of their parents a: cutting a -> b takes the shield from the
    collider a -> c <- b.
    """
    known = v_structures(dag)
    return tuple(node for node in range(dag.p) if v_structures(mutilate(dag, [node])) - known)


def _sizes(rows: int | Sequence[int], choices: Sequence[int] | None, parties: int, seed: int) -> list[int]:
    if choices is None:
        return party_sizes(rows, parties)
    if isinstance(choices, str | bytes) or not isinstance(choices, Sequence | np.ndarray) or not len(choices):
        raise refuse("row_choices", choices, "whole numbers, at least one")
    accepted = [count(f"row_choices[{k}]", size) for k, size in enumerate(choices)]
    return [accepted[k] for k in stream(seed, _SIZES).integers(len(accepted), size=parties)]


def _given_targets(targets: Sequence[Iterable[int]], parties: int, d: int) -> list[tuple[int, ...]]:
    family = list(targets)
    if len(family) != parties:
        raise InvalidParameter(f"targets must be {parties} sets, one a party, got {len(family)}")
    masks = [node_mask(f"targets[{p}]", nodes, d) for p, nodes in enumerate(family)]
    return [tuple(node for node in range(d) if mask >> node & 1) for mask in masks]


def _erdos_renyi(
    d: int, probability: float, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return a topological order and the edges' positions in the matrix."""
    order = generator.permutation(d)
    forward = np.triu(generator.random((d, d)) < probability, 1)
    present = np.zeros((d, d), dtype=np.bool_)
    present[np.ix_(order, order)] = forward
    return order, present


def _draw_targets(
    dag: Pdag, useful: tuple[int, ...], number: int, bias: float, generator: np.random.Generator
) -> tuple[int, ...]:
    chosen: list[int] = []
    for _ in range(number):
        better = [node for node in useful if node not in chosen]
        any_child = [node for node in range(dag.p) if dag.parents[node] and node not in chosen]
        among = better if better and generator.random() < bias else any_child
        if not among:
            break
        chosen.append(int(among[generator.integers(len(among))]))
    return tuple(sorted(chosen))


def solve_curved(
    noise: NDArray[np.float64],
    weights: NDArray[np.float64],
    order: NDArray[np.int64],
    mechanism: Mechanism,
    slopes: NDArray[np.float64],
    shifts: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Solve x_j = sum_i B_ij f_ij(x_i) + e_j along the order; the noise is overwritten."""
    curve = np.sin if mechanism == "sine" else np.tanh
    for j in order:
        for i in np.flatnonzero(weights[:, j]):
            noise[:, j] += weights[i, j] * curve(slopes[i, j] * noise[:, i] + shifts[i, j])
    return noise
