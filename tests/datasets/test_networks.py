"""Bundled networks against what is published of them, the sampler against their tables, and the reader's refusals."""

from __future__ import annotations

import gzip
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from privfcd.datasets.networks import NETWORKS, load_network, read_bif
from privfcd.errors import InvalidParameter, InvalidTable

KNOWN = {"alarm": (37, 46, 509), "child": (20, 25, 230), "insurance": (27, 52, 984)}
"""Variables, edges, independent parameters, as bnlearn's repository states them (insurance: 1008 with two-level rows)."""

SMALL = """network small { }
variable rain { type discrete [ 2 ] { no, yes }; }
variable grass { type discrete [ 3 ] { dry, damp, wet }; }
probability ( rain ) { table 0.8, 0.2; }
probability ( grass | rain ) { (no) 0.9, 0.05, 0.05; (yes) 0.1, 0.2, 0.7; }
"""


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_the_published_ones(name: str) -> None:
    network = load_network(name)
    variables, edges, _ = KNOWN[name]
    assert len(network.columns) == variables and int(network.adjacency.sum()) == edges
    assert nx.is_directed_acyclic_graph(nx.from_numpy_array(network.adjacency, create_using=nx.DiGraph))
    for node, table in enumerate(network.tables):
        assert table.shape == (*(network.levels[parent] for parent in network.parents[node]), network.levels[node])
        np.testing.assert_allclose(table.sum(axis=-1), 1.0)


def test_samples_follow_the_tables() -> None:
    network = load_network("child")
    rows = network.sample(20_000, 7).astype(int)
    tests = []
    for node, parents in enumerate(network.parents):
        for state in np.ndindex(*(network.levels[parent] for parent in parents)):
            chosen = (rows[:, list(parents)] == state).all(axis=1)
            expected = network.tables[node][state] * chosen.sum()
            if expected.min() >= 5:
                seen = np.bincount(rows[chosen, node], minlength=network.levels[node])
                tests.append(stats.chisquare(seen, expected).pvalue)
    assert len(tests) > 30 and min(tests) > 0.001 / len(tests)


def test_fewer_rows_are_the_first_of_more() -> None:
    network = load_network("insurance")
    np.testing.assert_array_equal(network.sample(50, 3), network.sample(500, 3)[:50])
    assert not np.array_equal(network.sample(50, 3), network.sample(50, 4))


@pytest.mark.parametrize("compressed", [False, True])
def test_files_are_read_compressed_or_not(tmp_path: Path, compressed: bool) -> None:
    path = tmp_path / ("small.bif.gz" if compressed else "small.bif")
    path.write_bytes(gzip.compress(SMALL.encode()) if compressed else SMALL.encode())
    network = read_bif(path)
    assert network.name == "small" and network.columns == ("rain", "grass") and network.parents == ((), (0,))
    assert network.states[1] == ("dry", "damp", "wet")
    np.testing.assert_allclose(network.tables[1], [[0.9, 0.05, 0.05], [0.1, 0.2, 0.7]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("variable", "thing"), "no discrete variables"),
        (("grass | rain", "grass | sun"), "unknown variable 'sun'"),
        (("probability ( rain )", "nothing ( rain )"), r"no probability table for \['rain'\]"),
        (("0.8, 0.2", "0.8, 0.3"), "do not add up"),
        (("(yes) 0.1, 0.2, 0.7;", ""), "missing"),
        (("(yes)", "(maybe)"), "does not fit"),
        (("0.8, 0.2", "0.8, much"), "does not fit"),
        (("( rain ) { table 0.8, 0.2;", "( rain | grass ) { (dry) 1, 0; (damp) 1, 0; (wet) 1, 0;"), "cycle"),
    ],
)
def test_malformed_files_are_refused(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    path = tmp_path / "bad.bif"
    path.write_text(SMALL.replace(*change))
    with pytest.raises(InvalidTable, match=message):
        read_bif(path)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="name must be one of"):
        load_network("asia")
    with pytest.raises(InvalidParameter, match="rows"):
        load_network("child").sample(0, 1)
