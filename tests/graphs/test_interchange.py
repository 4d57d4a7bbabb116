"""Graph files: what is written is read back, whole files only, and clear refusals."""

from __future__ import annotations

import json
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.errors import InvalidParameter
from privfcd.graphs import read_graph, write_graph
from privfcd.markup import json_escaped

READABLE = ["graphml", "json", "csv"]
HARD_NAMES = [
    "p44/42",
    "two words",
    ' led by a blank, with "quotes"',
    "comma,comma",
    "a\nb",
    "a\r\nb\rc",
    "tab\t",
    "back\\slash\\",
    "Größe µ",
    "変数",
    "😀",
    "<tag> & 'x'",
    "from",
    "1",
    "nan",
    "#",
    "\x85\u2028",
    '"',
]
# The characters that XML 1.0 allows.
characters = st.characters(exclude_categories=["Cs"]).filter(
    lambda c: (c >= " " or c in "\t\n\r") and c not in "\ufffe\uffff"
)
name = st.one_of(st.sampled_from(HARD_NAMES), st.text(characters, min_size=1, max_size=8))
weight = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-3, 3))


@st.composite
def graphs(draw: st.DrawFn) -> nx.DiGraph:
    nodes = draw(st.lists(name, min_size=1, max_size=6, unique=True))
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_nodes_from(nodes)
    pairs = st.tuples(st.sampled_from(nodes), st.sampled_from(nodes))
    for source, target in draw(st.lists(pairs, max_size=8, unique=True)):
        known = {"weight": draw(weight), "stability": draw(st.one_of(st.none(), st.floats(0, 1)))}
        attributes = {key: value for key, value in known.items() if value is not None}
        undirected = source != target and draw(st.booleans())
        if graph.has_edge(target, source) and (undirected or graph.edges[target, source].get("undirected")):
            continue
        if undirected:
            attributes["undirected"] = True
            graph.add_edge(target, source, **attributes)
        elif draw(st.booleans()):
            attributes["undirected"] = False  # as learners' graphs have it; it says nothing
        graph.add_edge(source, target, **attributes)
    return graph


def content(graph: nx.DiGraph) -> tuple[set[str], dict[tuple[str, str], Any]]:
    kept = {(a, b): {k: v for k, v in data.items() if v is not False} for a, b, data in graph.edges(data=True)}
    return set(graph), kept


@settings(deadline=None)
@given(graphs(), st.sampled_from(READABLE))
def test_what_is_written_is_read_back(graph: nx.DiGraph, kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"graph.{kind}"
        write_graph(graph, path)
        assert os.listdir(folder) == [path.name]
        back = read_graph(path)
        assert type(back) is nx.DiGraph
        assert content(back) == content(graph)
        assert all(type(w) is float for _, _, w in back.edges(data="weight") if w is not None)


@pytest.mark.parametrize("kind", READABLE)
def test_all_hard_names_at_once(tmp_path: Path, kind: str) -> None:
    graph: nx.DiGraph = nx.DiGraph()
    nx.add_path(graph, HARD_NAMES)
    write_graph(graph, tmp_path / f"g.{kind}")
    assert content(read_graph(tmp_path / f"g.{kind}")) == content(graph)


def dot_statements(text: str) -> list[list[str]]:
    """Split into statements of names, as the DOT grammar reads double-quoted texts."""
    assert text.startswith("digraph {\n") and text.endswith("}\n")
    quoted = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
    position, statements = len("digraph {\n"), []
    while text[position:] != "}\n":
        names = []
        assert text.startswith("  ", position)
        position += 2
        while True:
            match = quoted.match(text, position)
            assert match is not None
            names.append(match[1].replace('\\"', '"').replace("\\\\", "\\"))
            position = match.end()
            if text.startswith(" -> ", position):
                position += 4
                continue
            label = re.compile(r' \[(dir=none)?(, )?(label="[^"]*")?\]').match(text, position)
            position = label.end() if label else position
            assert text.startswith(";\n", position)
            position += 2
            break
        statements.append(names)
    return statements


@settings(deadline=None)
@given(graphs())
def test_dot_quotes_every_name(graph: nx.DiGraph) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.gv"
        write_graph(graph, path)
        statements = dot_statements(path.read_bytes().decode("utf-8"))
    assert [s[0] for s in statements if len(s) == 1] == [json_escaped(name) for name in graph]
    drawn = [(a, b) for a, b, undirected in graph.edges(data="undirected") if not undirected or a <= b]
    assert [s for s in statements if len(s) == 2] == [list(map(json_escaped, pair)) for pair in drawn]


def test_dot_labels_edges_with_weights(tmp_path: Path) -> None:
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_edge("a", 'b"', weight=-0.51234)
    graph.add_node("c\\")
    write_graph(graph, tmp_path / "g.dot")
    expected = 'digraph {\n  "a";\n  "b\\"";\n  "c\\\\";\n  "a" -> "b\\"" [label="-0.512"];\n}\n'
    assert (tmp_path / "g.dot").read_text() == expected


def undirected(first: str, second: str, **attributes: Any) -> nx.DiGraph:
    graph: nx.DiGraph = nx.DiGraph()
    for source, target in ((first, second), (second, first)):
        graph.add_edge(source, target, undirected=True, **attributes)
    return graph


def test_dot_draws_an_undirected_edge_once_and_writes_stability(tmp_path: Path) -> None:
    graph = undirected("b", "a", weight=2.0)
    graph.add_edge("b", "c", undirected=False)
    write_graph(graph, tmp_path / "g.dot", stability={("b", "a"): 0.25, ("b", "c"): 1.0, ("c", "b"): 0.5})
    lines = (tmp_path / "g.dot").read_text().splitlines()[4:-1]
    assert lines == ['  "b" -> "c" [label="100 %"];', '  "a" -> "b" [dir=none, label="2 (25 %)"];']


def test_csv_form_of_undirected_edges(tmp_path: Path) -> None:
    graph = undirected("b", "a", weight=0.5)
    graph.add_edge("a", "c", stability=0.125)
    write_graph(graph, tmp_path / "g.csv")
    text = "from,to,weight,undirected,stability\na,b,0.5,true,\na,c,,,0.125\n"
    assert (tmp_path / "g.csv").read_text() == text
    (tmp_path / "g.csv").write_text("Cause,Effect,Stability, UNDIRECTED \na,b,,Yes\na,c,0.125,no\n")
    del graph.edges["a", "b"]["weight"], graph.edges["b", "a"]["weight"]
    assert content(read_graph(tmp_path / "g.csv")) == content(graph)


@pytest.mark.parametrize("kind", READABLE)
def test_learners_cpdags_survive(tmp_path: Path, kind: str) -> None:
    from privfcd.graphs.cpdag import dag_to_cpdag
    from privfcd.graphs.pdag import pdag_to_networkx

    cpdag = dag_to_cpdag([[0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
    chain = dag_to_cpdag([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
    for pdag in (cpdag, chain):
        graph = pdag_to_networkx(pdag, list("wxyz"))
        shares = {(a, b): 0.5 for a, b in graph.edges if a < b}
        write_graph(graph, tmp_path / f"g.{kind}", stability=shares)
        back = read_graph(tmp_path / f"g.{kind}")
        assert {(a, b): bool(u) for a, b, u in back.edges(data="undirected")} == {
            (a, b): u for a, b, u in graph.edges(data="undirected")
        }
        assert all(value == 0.5 for *_, value in back.edges(data="stability"))


@pytest.mark.parametrize("kind", [*READABLE, "dot"])
def test_half_an_undirected_edge_is_refused(tmp_path: Path, kind: str) -> None:
    half, loop, unlike = nx.DiGraph(), nx.DiGraph(), undirected("a", "b")
    half.add_edge("a", "b", undirected=True)
    loop.add_edge("a", "a", undirected=True)
    unlike.edges["a", "b"]["weight"] = 1.0
    mixed = undirected("a", "b")
    mixed.edges["b", "a"]["undirected"] = False
    for graph in (half, loop, unlike, mixed):
        with pytest.raises(InvalidParameter, match="must be two arcs between two nodes"):
            write_graph(graph, tmp_path / f"g.{kind}")
    for wrong in ({"stability": 1.5}, {"stability": float("nan")}, {"undirected": "perhaps"}):
        graph = nx.DiGraph()
        graph.add_edge("a", "b", **wrong)
        with pytest.raises(InvalidParameter, match=f"{next(iter(wrong))} of 'a' -> 'b'"):
            write_graph(graph, tmp_path / f"g.{kind}")
    with pytest.raises(InvalidParameter, match="stability of 'a' -> 'b'"):
        write_graph(nx.DiGraph([("a", "b")]), tmp_path / f"g.{kind}", stability={("a", "b"): 2})
    assert os.listdir(tmp_path) == []


def test_files_of_earlier_versions_are_read(tmp_path: Path) -> None:
    """As written before undirected edges and stability were kept: names, arcs and weights."""
    old = {
        "g.csv": "from,to,weight\nalone,,\na,b,-0.5\nb,c,\n",
        "g.json": '{"directed": true, "multigraph": false, "graph": {}, "nodes": [{"id": "alone"}, {"id": "a"}, '
        '{"id": "b"}, {"id": "c"}], "edges": [{"source": "a", "target": "b", "weight": -0.5}, '
        '{"source": "b", "target": "c"}]}',
        "g.graphml": "<?xml version='1.0' encoding='utf-8'?>\n"
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="d0" for="edge" attr.name="weight" '
        'attr.type="double" /><graph edgedefault="directed"><node id="alone" /><node id="a" /><node id="b" /><node id="c" />'
        '<edge source="a" target="b"><data key="d0">-0.5</data></edge><edge source="b" target="c" /></graph></graphml>',
    }
    for file, text in old.items():
        (tmp_path / file).write_text(text)
        expected = {("a", "b"): {"weight": -0.5}, ("b", "c"): {}}
        assert content(read_graph(tmp_path / file)) == ({"alone", "a", "b", "c"}, expected)


def test_csv_form(tmp_path: Path) -> None:
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_node("alone")
    graph.add_edge("a,b", "c", weight=0.25)
    graph.add_edge("c", "a,b")
    write_graph(graph, tmp_path / "g.csv")
    assert (tmp_path / "g.csv").read_text() == 'from,to,weight\nalone,,\n"a,b",c,0.25\nc,"a,b",\n'


@pytest.mark.parametrize(
    "text",
    [
        '"Cause","Effect"\n"p44/42","x"\n',
        "FROM,To\r\np44/42,x\r\n",
        "\ufefffrom, to ,Weight\np44/42,x,\n\n",
        "source,target\np44/42,x",
    ],
)
def test_csv_headers_that_are_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "g.csv").write_bytes(text.encode())
    assert content(read_graph(tmp_path / "g.csv")) == ({"p44/42", "x"}, {("p44/42", "x"): {}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "first line must be"),
        ("PIP2,PKC\na,b\n", "first line must be from,to or cause,effect"),
        ("from,to,strength\na,b,1\n", "first line must be"),
        ("from,to\na,b,1\n", "line 2 has 3 cells, the header has 2"),
        ("from,to\na,b\n,b\n", "line 3 must name both ends"),
        ("from,to,weight\na,,1\n", "line 2 must name both ends"),
        ("from,to\na,b\na,b\n", "line 3 repeats the edge 'a' -> 'b'"),
        ("from,to,weight,weight\na,b,1,1\n", "first line must be"),
        ("from,to,undirected\na,b,maybe\n", "line 2: undirected must be true or false, got 'maybe'"),
        ("from,to,undirected\na,b,true\nb,a,true\n", "line 3 repeats the edge 'b' -> 'a'"),
        ("from,to,undirected\na,a,true\n", "line 2 repeats the edge 'a' -> 'a'"),
        ("from,to,undirected\na,b,true\nb,a,false\n", "line 3 repeats the edge 'b' -> 'a'"),
        ("from,to,stability\na,b,2\n", "stability of 'a' -> 'b' must be a share in [0, 1]"),
        ("from,to,stability\na,b,x\n", "line 2: the stability must be a number, got 'x'"),
        ("from,to,undirected\na,,true\n", "line 2 must name both ends"),
        ("from,to,weight\na,b,big\n", "line 2: the weight must be a number, got 'big'"),
        ("from,to,weight\na,b,nan\n", "weight of 'a' -> 'b' must be a finite number"),
        ('from,to\n"a,b\n', "csv graph"),
    ],
)
def test_csv_that_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "g.csv").write_text(text)
    with pytest.raises(InvalidParameter, match=re.escape(message)) as caught:
        read_graph(tmp_path / "g.csv")
    assert "g.csv" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("g.json", "{"),
        ("g.json", "[1, 2]"),
        ("g.json", '{"nodes": [{"id": "a"}]}'),
        ("g.json", '{"directed": true, "nodes": [{"id": 1}], "edges": []}'),
        ("g.json", '{"directed": false, "nodes": [{"id": "a"}], "edges": []}'),
        ("g.json", '{"directed": true, "nodes": [{"name": "a"}], "edges": []}'),
        ("g.json", '{"directed": true, "nodes": [{"id": "a"}], "edges": [{"source": "a"}]}'),
        ("g.json", '{"directed": true, "nodes": [{"id": ["a"]}], "edges": []}'),
        ("g.json", '{"directed": true, "nodes": {"id": "a"}, "edges": []}'),
        ("g.json", '{"directed": true, "multigraph": true, "nodes": [{"id": "a"}], "edges": []}'),
        ("g.json", '{"nodes": [{"id": "a"}], "edges": []}'),
        ("g.graphml", "<graphml"),
        ("g.graphml", "<html></html>"),
        ("g.graphml", ""),
    ],
)
def test_other_files_that_are_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidParameter, match=re.escape(name)):
        read_graph(tmp_path / name)


def test_undirected_graphml_and_text_weights_are_refused(tmp_path: Path) -> None:
    nx.write_graphml_xml(nx.Graph([("a", "b")]), tmp_path / "g.graphml")
    with pytest.raises(InvalidParameter, match="DiGraph"):
        read_graph(tmp_path / "g.graphml")
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_edge("a", "b", weight="strong")
    nx.write_graphml_xml(graph, tmp_path / "g.graphml")
    with pytest.raises(InvalidParameter, match="weight of 'a' -> 'b'"):
        read_graph(tmp_path / "g.graphml")


def test_json_of_older_networkx_is_read(tmp_path: Path) -> None:
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_edge("a", "b", weight=2.0)
    write_graph(graph, tmp_path / "g.json")
    text = (tmp_path / "g.json").read_text()
    (tmp_path / "g.json").write_text(text.replace('"edges"', '"links"'))
    assert content(read_graph(tmp_path / "g.json")) == content(graph)


@settings(deadline=None)
@given(graphs())
def test_networkx_reads_the_json_and_writes_such_json(graph: nx.DiGraph) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.json"
        write_graph(graph, path)
        assert content(nx.node_link_graph(json.loads(path.read_bytes()), edges="edges")) == content(graph)
        path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")))
        assert content(read_graph(path)) == content(graph)


def test_formats_and_suffixes(tmp_path: Path) -> None:
    graph: nx.DiGraph = nx.DiGraph([("a", "b")])
    for name in ("g.txt", "g", "g.csv.gz"):
        with pytest.raises(InvalidParameter, match=r"\.graphml, \.dot, \.gv, \.json, \.csv"):
            write_graph(graph, tmp_path / name)
    with pytest.raises(InvalidParameter, match="graphml, dot, json, csv"):
        write_graph(graph, tmp_path / "g.csv", format="xml")
    assert os.listdir(tmp_path) == []
    write_graph(graph, tmp_path / "edges", format="csv")
    assert content(read_graph(tmp_path / "edges", format="csv")) == content(graph)
    write_graph(graph, str(tmp_path / "G.GraphML"))
    assert content(read_graph(str(tmp_path / "G.GraphML"))) == content(graph)
    write_graph(graph, tmp_path / "g.dot")
    with pytest.raises(InvalidParameter, match=r"one of \.graphml, \.json, \.csv"):
        read_graph(tmp_path / "g.dot")
    for missing in ("none.json", "none/none.csv"):
        with pytest.raises(InvalidParameter, match="no such file"):
            read_graph(tmp_path / missing)
    (tmp_path / "d.json").mkdir()
    with pytest.raises(InvalidParameter, match="cannot be read"):
        read_graph(tmp_path / "d.json")
    (tmp_path / "latin.csv").write_bytes("from,to\nGröße,b\n".encode("latin-1"))
    with pytest.raises(InvalidParameter, match="UTF-8"):
        read_graph(tmp_path / "latin.csv")
    for path in ("", 3, None):
        with pytest.raises(InvalidParameter, match="path must be"):
            read_graph(path)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", ["", "nul\x00", "bell\x07", "\ud800", "\uffff", 3])
@pytest.mark.parametrize("kind", [*READABLE, "dot"])
def test_names_that_no_file_can_carry_are_refused(tmp_path: Path, kind: str, bad: object) -> None:
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_node(bad)
    with pytest.raises(InvalidParameter, match="node names"):
        write_graph(graph, tmp_path / f"g.{kind}")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "1", True, 1j])
def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, bad: object) -> None:
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_edge("a", "b", weight=bad)
    with pytest.raises(InvalidParameter, match="weight of 'a' -> 'b'"):
        write_graph(graph, tmp_path / "g.json")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "g.csv"
    write_graph(nx.DiGraph([("a", "b")]), path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for call in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, full)
            with pytest.raises(InvalidParameter, match="cannot be written: No space left"):
                write_graph(nx.DiGraph([("c", "d")]), path)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["g.csv"]
    with pytest.raises(InvalidParameter, match="cannot be written"):
        write_graph(nx.DiGraph([("c", "d")]), tmp_path / "none" / "g.csv")


def test_a_replaced_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "g.csv", tmp_path / "link.csv"
    write_graph(nx.DiGraph([("a", "b")]), path)
    path.chmod(0o600)
    link.symlink_to(path)
    write_graph(nx.DiGraph([("c", "d")]), link)
    assert link.is_symlink() and set(read_graph(path)) == {"c", "d"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_names_that_turn_the_text_around_are_escaped_and_read_back(tmp_path: Path) -> None:
    graph = nx.DiGraph([("dose\u202e(yawa)\U000e0041", "end\u200b")])
    for suffix in ("json", "graphml", "csv", "dot"):
        path = tmp_path / f"graph.{suffix}"
        write_graph(graph, path)
        raw = path.read_text(encoding="utf-8")
        assert suffix == "csv" or not {"\u202e", "\u200b", "\U000e0041"} & set(raw)
        assert suffix == "dot" or set(read_graph(path)) == set(graph)
    assert r"dose\\u202e(yawa)" in raw
