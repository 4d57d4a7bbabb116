"""privfcd compare graphs: the numbers of the library, for graphs on file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from privfcd.graphs import Pdag, compare, compare_pdags, dag_to_cpdag, to_networkx, write_graph

Run = Callable[..., tuple[int, str, str]]
NAMES = ("a", "b", "c", "d", "e")


def written(path: Path, matrix: np.ndarray) -> str:
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(NAMES)
    graph.add_edges_from((NAMES[i], NAMES[j]) for i, j in np.argwhere(matrix).tolist())
    write_graph(graph, path)
    return str(path)


def dag(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    order = rng.permutation(5)
    return (np.triu(rng.random((5, 5)) < 0.5, 1))[np.ix_(order, order)].astype(float)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("suffixes", [(".csv", ".json"), (".graphml", ".csv")])
def test_numbers_are_those_of_the_library(run: Run, tmp_path: Path, seed: int, suffixes: tuple[str, str]) -> None:
    one, other = dag(seed), dag(seed + 100)
    paths = [
        written(tmp_path / f"{k}{suffix}", m) for k, (suffix, m) in enumerate(zip(suffixes, (one, other), strict=True))
    ]
    code, out, err = run("compare", "graphs", *paths, "--json")
    answer = json.loads(out)
    assert code == 0 and err == ""
    assert answer["directed"] == vars(compare(one, other))
    assert answer["partially_directed"] == vars(compare_pdags(one, other))
    assert answer["class"] == vars(compare_pdags(dag_to_cpdag(one), dag_to_cpdag(other)))
    assert answer["a"]["kind"] == answer["b"]["kind"] == "DAG" and answer["a"]["edges"] == int(one.sum())
    code, out, _ = run("compare", "graphs", *paths)
    assert code == 0 and "class (CPDAG)" in out and "skeleton: F1" in out


def test_equivalent_graphs_have_the_same_class(run: Run, tmp_path: Path) -> None:
    chain, turned = np.zeros((5, 5)), np.zeros((5, 5))
    chain[0, 1] = chain[1, 2] = 1
    turned[1, 0] = turned[1, 2] = 1
    paths = [written(tmp_path / "one.csv", chain), written(tmp_path / "other.csv", turned)]
    answer = json.loads(run("compare", "graphs", *paths, "--json")[1])
    assert answer["directed"]["shd"] == 1 and answer["class"]["shd"] == 0
    cpdag = dag_to_cpdag(chain)
    paths[1] = written(tmp_path / "class.json", cpdag.matrix().astype(float))
    answer = json.loads(run("compare", "graphs", *paths, "--json")[1])
    assert answer["b"]["kind"] == "CPDAG" and answer["b"]["undirected"] == 2 and answer["class"]["shd"] == 0
    assert answer["partially_directed"]["undirected"] == 2


def test_graphs_without_a_class_are_compared_as_they_are(run: Run, tmp_path: Path) -> None:
    cycle, mixed = np.zeros((5, 5)), np.zeros((5, 5))
    cycle[0, 1] = cycle[1, 2] = cycle[2, 0] = 1
    mixed[0, 1] = mixed[1, 2] = mixed[2, 1] = 1  # a -> b - c: Meek's first rule would direct b -> c
    assert dag_to_cpdag(dag(1)) != Pdag.from_matrix(mixed)
    paths = [written(tmp_path / "cycle.csv", cycle), written(tmp_path / "mixed.csv", mixed)]
    answer = json.loads(run("compare", "graphs", *paths, "--json")[1])
    assert (answer["a"]["kind"], answer["b"]["kind"], answer["class"]) == (
        "with directed cycles",
        "partially directed",
        None,
    )
    assert "neither a DAG nor a CPDAG" in run("compare", "graphs", *paths)[1]


def test_a_picture_is_drawn(run: Run, tmp_path: Path) -> None:
    paths = [written(tmp_path / "one.csv", dag(1)), written(tmp_path / "other.csv", dag(2))]
    assert run("compare", "graphs", *paths, "--plot", str(tmp_path / "both.svg"))[0] == 0
    assert (tmp_path / "both.svg").read_bytes().startswith(b"<svg")


def test_what_cannot_be_compared_is_refused(run: Run, tmp_path: Path) -> None:
    one = written(tmp_path / "one.csv", dag(1))
    write_graph(to_networkx(np.zeros((2, 2)), ("a", "z")), tmp_path / "other.json")
    code, _, err = run("compare", "graphs", one, str(tmp_path / "other.json"))
    assert code == 2 and "must have the same nodes" in err and "'z'" in err and "'e'" in err
    loop = tmp_path / "loop.csv"
    loop.write_text("from,to\na,a\nb,\nc,\nd,\ne,\n")
    for words in ([one, str(tmp_path / "none.csv")], [one, str(tmp_path / "one.txt")], [one], [one, str(loop)],
                  [one, one, "--plot", str(tmp_path / "x.gif")],
                  [one, one, "--plot", str(tmp_path / "no" / "x.png")]):  # fmt: skip
        code, out, err = run("compare", "graphs", *words)
        assert code == 2 and out == "" and err, words
    assert run("compare", "graphs", one, str(loop), "--json")[0] == 2
