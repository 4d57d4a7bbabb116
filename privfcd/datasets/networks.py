"""Discrete Bayesian networks: three public ones that come with the package, a reader of BIF files, and a sampler."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.errors import InvalidTable
from privfcd.reading import content_of, parsing, unzipped

MOST_BYTES = 64 * 2**20
NETWORKS = ("alarm", "child", "insurance")

_VARIABLE = re.compile(r"variable\s+(\S+)\s*\{\s*type\s+discrete\s*\[\s*(\d+)\s*\]\s*\{([^}]*)\}\s*;\s*\}")
_PROBABILITY = re.compile(r"probability\s*\(([^)]*)\)\s*\{([^}]*)\}")
_LINE = re.compile(r"(?:\(([^)]*)\)|table)\s*([^;]*);")


@dataclass(frozen=True, eq=False)
class DiscreteNetwork:
    """A Bayesian network of discrete variables.

    Attributes
    ----------
    name : str
    columns : tuple of d str
        The variables, in the file's order.
    states : tuple of tuples of str
        Each variable's levels; level k is the k-th.
    parents : tuple of tuples of int
        Each variable's parents.
    tables : tuple of ndarray
        P(variable | parents), shape (levels of each parent..., levels of the variable).
    """

    name: str
    columns: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    parents: tuple[tuple[int, ...], ...]
    tables: tuple[NDArray[np.float64], ...]

    @property
    def levels(self) -> tuple[int, ...]:
        """The number of levels of each variable."""
        return tuple(len(states) for states in self.states)

    @property
    def adjacency(self) -> NDArray[np.bool_]:
        """The DAG, shape (d, d), [i, j] for i -> j."""
        answer = np.zeros((len(self.columns), len(self.columns)), dtype=np.bool_)
        for node, parents in enumerate(self.parents):
            answer[list(parents), node] = True
        return answer

    def sample(self, rows: int, seed: int) -> NDArray[np.float64]:
        """Return independent records, shape (rows, d), values 0, 1, ...

        Every variable has a stream of its own, so that fewer rows are the first ones of more rows.
        """
        rows = checks.count("rows", rows)
        seed = checks.count("seed", seed, least=0)
        d = len(self.columns)
        values = np.zeros((rows, d), dtype=np.int64)
        graph = nx.from_numpy_array(self.adjacency, create_using=nx.DiGraph)
        for node in nx.lexicographical_topological_sort(graph):
            generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(node,)))
            chances = np.cumsum(self.tables[node], axis=-1)
            given = chances[tuple(values[:, parent] for parent in self.parents[node])]
            draws = generator.random(rows)[:, None]
            values[:, node] = np.minimum((draws > given).sum(axis=-1), len(self.states[node]) - 1)
        return values.astype(np.float64)


def load_network(name: str) -> DiscreteNetwork:
    """Return a network that comes with the package: "alarm" (37 variables), "child" (20) or "insurance" (27).

    Sources: Beinlich et al. 1989, Spiegelhalter et al. 1993, Binder et al. 1997; files from pgmpy 1.1.2 (MIT).

    Parameters
    ----------
    name : {"alarm", "child", "insurance"}
        Which one.

    Raises
    ------
    InvalidParameter
        There is no network of that name.
    """
    if name not in NETWORKS:
        raise checks.refuse("name", name, "one of " + ", ".join(NETWORKS))
    with as_file(files("privfcd.datasets").joinpath("bundled", f"{name}.bif.gz")) as path:
        return read_bif(path, name)


def read_bif(path: str | os.PathLike[str], name: str | None = None) -> DiscreteNetwork:
    """Return the network of a BIF file, compressed or not.

    Parameters
    ----------
    path : path
        The file.
    name : str, optional
        What the network is called; the file's own name for it by default.

    Raises
    ------
    InvalidTable
        The file is not of the form that is read: discrete variables, each with one probability table that adds up to 1.
    """
    source = Path(path)
    what = f"network file {source.name!r}"
    raw = content_of(source, what, MOST_BYTES, InvalidTable)
    with parsing(f"{what} is not a BIF file", InvalidTable):
        text = (unzipped(raw, what, InvalidTable) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8")
        return _network(text, source.name.split(".")[0] if name is None else name)


def _network(text: str, label: str) -> DiscreteNetwork:
    variables = {match[1]: tuple(part.strip() for part in match[3].split(",")) for match in _VARIABLE.finditer(text)}
    if not variables:
        raise InvalidTable(f"network {label!r}: no discrete variables")
    places = {variable: index for index, variable in enumerate(variables)}
    parents: dict[str, tuple[int, ...]] = {}
    tables: dict[str, NDArray[np.float64]] = {}
    for match in _PROBABILITY.finditer(text):
        node, _, given = (part.strip() for part in match[1].partition("|"))
        names = [part.strip() for part in given.split(",")] if given else []
        for variable in (node, *names):
            if variable not in variables:
                raise InvalidTable(f"network {label!r}: probability of unknown variable {variable!r}")
        parents[node] = tuple(places[variable] for variable in names)
        tables[node] = _table(match[2], node, names, variables, label)
    missing = sorted(set(variables) - set(tables))
    if missing:
        raise InvalidTable(f"network {label!r}: no probability table for {missing}")
    network = DiscreteNetwork(
        label,
        tuple(variables),
        tuple(variables.values()),
        tuple(parents[variable] for variable in variables),
        tuple(tables[variable] for variable in variables),
    )
    if not nx.is_directed_acyclic_graph(nx.from_numpy_array(network.adjacency, create_using=nx.DiGraph)):
        raise InvalidTable(f"network {label!r}: the graph has a directed cycle")
    return network


def _table(
    body: str, node: str, parents: list[str], variables: dict[str, tuple[str, ...]], label: str
) -> NDArray[np.float64]:
    shape = (*(len(variables[parent]) for parent in parents), len(variables[node]))
    if math.prod(shape) > len(body):  # each of its numbers takes a character at least
        raise InvalidTable(f"network {label!r}: the table of {node!r} must have {math.prod(shape)} numbers; it has not")
    table = np.full(shape, np.nan)
    for line in _LINE.finditer(body):
        given = [part.strip() for part in line[1].split(",")] if line[1] is not None else []
        try:
            place = tuple(variables[parent].index(state) for parent, state in zip(parents, given, strict=True))
            table[place] = np.array([float(part) for part in line[2].split(",")]).reshape(shape[len(place) :])
        except ValueError:
            raise InvalidTable(
                f"network {label!r}: the table of {node!r} has a line that does not fit: {line[0]!r}"
            ) from None
    sums = table.sum(axis=-1)
    if not (np.abs(sums - 1) < 1e-3).all() or (table < 0).any():
        raise InvalidTable(f"network {label!r}: the table of {node!r} has rows that are missing or do not add up to 1")
    return np.asarray(table / sums[..., None])
