"""The bundled data: content, targets, notices."""

from __future__ import annotations

import gzip
import hashlib
from importlib.resources import files

import networkx as nx
import numpy as np

from privfcd.datasets.sachs import sachs
from privfcd.graphs import compare, find_cycle, from_networkx

COLUMNS = ("praf", "pmek", "plcg", "PIP2", "PIP3", "p44/42", "pakts473", "PKA", "PKC", "P38", "pjnk")
# Parents in the published consensus network, under the names that the network's own file uses.
CONSENSUS = {
    "Akt": ["Erk", "PKA"],
    "Erk": ["Mek", "PKA"],
    "Jnk": ["PKA", "PKC"],
    "Mek": ["PKA", "PKC", "Raf"],
    "P38": ["PKA", "PKC"],
    "PIP2": ["PIP3", "Plcg"],
    "PIP3": ["Plcg"],
    "PKA": ["PKC"],
    "Raf": ["PKA", "PKC"],
}
RENAMED = {"Raf": "praf", "Mek": "pmek", "Erk": "p44/42", "Akt": "pakts473", "Jnk": "pjnk", "Plcg": "plcg"}


def bundled(name: str) -> bytes:
    return files("privfcd.datasets").joinpath("bundled", name).read_bytes()


def test_rows() -> None:
    data = sachs()
    assert data.columns == COLUMNS
    assert data.rows.shape == (7466, 11) and data.rows.dtype == np.float64
    assert data.rows[0].tolist() == [26.4, 13.2, 8.82, 18.3, 58.8, 6.61, 17.0, 414.0, 17.0, 44.9, 40.0]
    assert not data.rows.flags.writeable
    spread = data.rows.std(axis=0)
    assert (round(spread.min()), round(spread.max())) == (43, 644)


def test_the_file_is_the_published_one_packed_reproducibly() -> None:
    packed = bundled("sachs.csv.gz")
    assert packed[3] == 0 and packed[4:8] == b"\0\0\0\0", "no file name, no time"
    digest = hashlib.sha256(gzip.decompress(packed)).hexdigest()
    assert digest == "fc331dcd0bc1d8765986b88cd1d23dd5a3f52e4ffc299fdf96de9d522ddf01aa"
    assert len(packed) < 160_000


def test_targets() -> None:
    targets = sachs().targets
    assert {name: len(graph.edges) for name, graph in targets.items()} == {"cdt18": 18, "consensus17": 17}
    for graph in targets.values():
        assert tuple(graph) == COLUMNS
        assert compare(graph, graph).shd == 0
    cycle = find_cycle(from_networkx(targets["cdt18"], COLUMNS))
    assert cycle is not None
    assert {COLUMNS[k] for k in cycle} == {"plcg", "PIP2", "PIP3"}
    assert nx.is_directed_acyclic_graph(targets["consensus17"])
    expected = {
        (RENAMED.get(parent, parent), RENAMED.get(child, child))
        for child, parents in CONSENSUS.items()
        for parent in parents
    }
    assert set(targets["consensus17"].edges) == expected


def test_every_call_gives_graphs_of_its_own() -> None:
    sachs().targets["cdt18"].clear()
    assert len(sachs().targets["cdt18"].edges) == 18


def test_notices() -> None:
    notice = bundled("NOTICE.md").decode()
    for line in (
        "Copyright (c) 2018 Diviyan Kalainathan",
        "Copyright (c) 2013 - present, pgmpy",
        "The above copyright notice and this permission notice shall be included in all",
    ):
        assert line in notice
    data = sachs()
    assert "MIT" in data.licence and "Science 308" in data.source
