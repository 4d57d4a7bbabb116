"""Graphs to files and back: GraphML, DOT, JSON (node-link) and CSV edge lists.

What a file carries is the graph's nodes, its edges, and of each edge the attributes `weight`, `undirected` and
`stability`; others are not written. An undirected edge is two arcs in opposite directions that both have `undirected` True
and agree in the rest. The format follows from the suffix:

======== ============== ========= =========================================================================
format   suffixes       read too  content
======== ============== ========= =========================================================================
graphml  .graphml       yes       GraphML as networkx writes it; an undirected edge is its two arcs
dot      .dot .gv       no        Graphviz, for drawing; an undirected edge is one line with dir=none; weight
                                  (three digits) and stability (per cent) are a label
json     .json          yes       node-link JSON, the form of networkx 3.4 and later; the same two arcs
csv      .csv           yes       header from,to and, where used, weight, undirected, stability; an undirected
                                  edge is one row with `true`; a node without edges is a row with empty `to`
======== ============== ========= =========================================================================

Characters that are not seen, or that turn the direction of writing, are written as the format's own escapes in GraphML
and JSON, which every reader undoes, and spelt out in DOT, which is for drawing. CSV has none: it carries names exactly.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import networkx as nx

from privfcd.checks import UNWRITABLE, real, refuse
from privfcd.errors import InvalidParameter
from privfcd.graphs.dag import plain_digraph
from privfcd.markup import csv_cell, csv_text, json_escaped, xml_escaped
from privfcd.reading import content_of, parsing
from privfcd.whole_files import write_whole

MOST_BYTES = 16 * 2**20
_SUFFIXES = {".graphml": "graphml", ".dot": "dot", ".gv": "dot", ".json": "json", ".csv": "csv"}
_HEADERS = (("from", "to"), ("cause", "effect"), ("source", "target"))
_COLUMNS = ("weight", "undirected", "stability")
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": False}


def write_graph(
    graph: nx.DiGraph[str],
    path: str | os.PathLike[str],
    format: str | None = None,
    *,
    stability: Mapping[tuple[str, str], float] | None = None,
) -> None:
    """Write a directed or partially directed graph to a file, whole or not at all.

    The content goes to a temporary file in the same folder, which then takes the place of `path` in one step:
    a crash leaves the old file or the new one, never half of one.

    Parameters
    ----------
    graph : networkx.DiGraph
        Nodes are texts; the edge attribute `weight`, where it is there, is a finite number. Two arcs with the attribute
        `undirected` are an undirected edge.
    path : path
        Its suffix gives the format: .graphml, .dot, .gv, .json or .csv.
    format : {"graphml", "dot", "json", "csv"}, optional
        The format, whatever the suffix says.
    stability : mapping of (str, str) to float, optional
        By (cause, effect), the share of reruns in which the edge was found, written with it; an undirected edge may be
        named either way, and pairs that are no edge are ignored. Without it, the edge attribute `stability` is written
        where it is there.

    Raises
    ------
    InvalidParameter
        Unknown format or suffix; a graph that is not a plain DiGraph; a name that is empty, not a text, or
        holds a control character; a weight that is not a finite number, a share outside [0, 1]; one arc of an undirected
        edge without the other, or unlike it; a folder that cannot be written to.
    """
    target = _as_path(path)
    kind = _format_of(target, format, tuple(_WRITERS))
    plain = checked_graph(graph, "graph")
    if stability is not None:
        for source, sink, attributes in plain.edges(data=True):
            known = stability.get((source, sink))
            if known is None and attributes.get("undirected"):
                known = stability.get((sink, source))
            attributes.pop("stability", None)
            if known is not None:
                attributes["stability"] = known
        plain = checked_graph(plain, "graph")
    content = _WRITERS[kind](plain)
    write_whole(target, content.encode("utf-8"))


def read_graph(path: str | os.PathLike[str], format: str | None = None) -> nx.DiGraph[str]:
    """Read a directed or partially directed graph from a GraphML, JSON or CSV file.

    Parameters
    ----------
    path : path
        A file with the suffix .graphml, .json or .csv. A CSV file starts with a header, `from,to`,
        `Cause,Effect` or `source,target`, in any case, and after them any of `weight`, `undirected` (true, yes or 1; false,
        no, 0 or empty) and `stability`; a row with an empty second cell is a node without edges.
    format : {"graphml", "json", "csv"}, optional
        The format, whatever the suffix says.

    Returns
    -------
    networkx.DiGraph
        With the edge attributes `weight` and `stability` (float) where the file gives them, and `undirected` True on both
        arcs of an undirected edge.

    Raises
    ------
    InvalidParameter
        No such file, unknown format or suffix, or a content that is not such a graph.
    """
    source = _as_path(path)
    kind = _format_of(source, format, tuple(_READERS))
    what = f"path {str(source)!r}"
    content = content_of(source, what, MOST_BYTES)
    with parsing(f"{what} is not a {kind} graph"):
        graph = _READERS[kind](content.decode("utf-8-sig"))
    return checked_graph(graph, what)


def checked_graph(graph: object, what: str) -> nx.DiGraph[str]:
    """Return a copy that holds names and the attributes that files carry only, all checked; `what` names it in errors."""
    given = plain_digraph(what, graph)
    plain: nx.DiGraph[str] = nx.DiGraph()
    for node in given:
        if not isinstance(node, str) or not node:
            raise InvalidParameter(f"{what}: node names must be non-empty texts, got {node!r}")
        if UNWRITABLE.search(node):
            raise InvalidParameter(f"{what}: node names must not hold control characters, got {node!r}")
        plain.add_node(node)
    for source, target, attributes in given.edges(data=True):
        plain.add_edge(source, target, **_attributes(what, f"of {source!r} -> {target!r}", attributes))
    for source, target, attributes in plain.edges(data=True):
        if attributes.get("undirected"):
            back = plain.edges[target, source] if plain.has_edge(target, source) else None
            if source == target or back != attributes:
                raise InvalidParameter(
                    f"{what}: the undirected edge {source!r} - {target!r} must be two arcs between two nodes with the same "
                    f"attributes, got {attributes} and {back}"
                )
    return plain


def _attributes(what: str, edge: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of an edge that files carry, checked; those that say nothing are left out."""
    kept: dict[str, Any] = {}
    if given.get("weight") is not None:
        kept["weight"] = real(f"{what}: weight {edge}", given["weight"])
    undirected = given.get("undirected")
    if undirected is not None and undirected not in (True, False):
        raise refuse(f"{what}: undirected {edge}", undirected, "true or false")
    if undirected:
        kept["undirected"] = True
    if given.get("stability") is not None:
        value = real(f"{what}: stability {edge}", given["stability"])
        if not 0 <= value <= 1:
            raise refuse(f"{what}: stability {edge}", value, "a share in [0, 1]")
        kept["stability"] = value
    return kept


def _as_path(path: str | os.PathLike[str]) -> Path:
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise InvalidParameter(f"path must be a file's path, got {path!r}")
    return Path(path)


def _format_of(path: Path, format: str | None, accepted: tuple[str, ...]) -> str:
    if format is not None:
        if format not in accepted:
            raise InvalidParameter(f"format must be one of {', '.join(accepted)}, got {format!r}")
        return format
    kind = _SUFFIXES.get(path.suffix.lower())
    if kind not in accepted:
        suffixes = ", ".join(suffix for suffix, kind in _SUFFIXES.items() if kind in accepted)
        raise InvalidParameter(f"path must end in one of {suffixes} (or give format), got {str(path)!r}")
    return kind


def _write_graphml(graph: nx.DiGraph[str]) -> str:
    buffer = io.BytesIO()
    nx.write_graphml_xml(graph, buffer)
    return xml_escaped(buffer.getvalue().decode("utf-8"))


def _read_graphml(text: str) -> object:
    return nx.read_graphml(io.BytesIO(text.encode("utf-8")))


def _write_json(graph: nx.DiGraph[str]) -> str:
    content = {
        "directed": True,
        "multigraph": False,
        "graph": {},
        "nodes": [{"id": node} for node in graph],
        "edges": [{"source": a, "target": b, **attributes} for a, b, attributes in graph.edges(data=True)],
    }
    return json_escaped(json.dumps(content, ensure_ascii=False, indent=2)) + "\n"


def _read_json(text: str) -> object:
    data: Any = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError("expected an object with nodes and edges")
    if data.get("directed") is not True or data.get("multigraph", False):
        raise ValueError('expected "directed": true, and no "multigraph": true')
    graph: nx.DiGraph[Any] = nx.DiGraph()
    graph.add_nodes_from(node["id"] for node in data["nodes"])
    edges = data["edges"] if "edges" in data else data["links"]  # networkx before 3.4 wrote links
    graph.add_edges_from((e["source"], e["target"], {key: e.get(key) for key in _COLUMNS}) for e in edges)
    return graph


def _write_csv(graph: nx.DiGraph[str]) -> str:
    present = {key for *_, attributes in graph.edges(data=True) for key in attributes}
    columns = [key for key in _COLUMNS if key in present]
    lines = [",".join(["from", "to", *columns])]
    for node in graph:
        if graph.degree(node) == 0:
            lines.append(_cell(node) + "," * (1 + len(columns)))
        for target, attributes in graph.adj[node].items():
            if not attributes.get("undirected") or node < target:
                shown = {**attributes, "undirected": "true"} if attributes.get("undirected") else attributes
                values = (shown.get(key, "") for key in columns)
                lines.append(",".join([_cell(node), _cell(target), *map(str, values)]))
    return "\n".join(lines) + "\n"


def _cell(name: str) -> str:
    name = str(csv_cell(name))  # no spreadsheet takes a column's name for a formula; `_read_csv` takes the mark off
    if name == name.strip() and not re.search('[,"\r\n]', name):
        return name
    return '"' + name.replace('"', '""') + '"'


def _read_csv(text: str) -> object:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    header = [cell.strip().lower() for cell in next(rows, [])]
    columns = header[2:]
    if tuple(header[:2]) not in _HEADERS or len(set(columns)) < len(columns) or not set(columns) <= set(_COLUMNS):
        forms = " or ".join(",".join(pair) for pair in _HEADERS)
        more = ", ".join(_COLUMNS)
        raise ValueError(f"the first line must be {forms}, then any of {more}; got {','.join(header)!r}")
    graph: nx.DiGraph[str] = nx.DiGraph()
    for row in rows:
        where = f"line {rows.line_num}"
        if not row:
            continue
        if len(row) != len(header):
            raise ValueError(f"{where} has {len(row)} cells, the header has {len(header)}")
        source, target = map(csv_text, row[:2])
        cells = {key: cell.strip() for key, cell in zip(columns, row[2:], strict=True)}
        if not source or (any(cells.values()) and not target):
            raise ValueError(f"{where} must name both ends of the edge")
        if not target:
            graph.add_node(source)
            continue
        attributes = _cells_read(cells, where)
        for start, end in ((source, target), (target, source)) if "undirected" in attributes else ((source, target),):
            if graph.has_edge(start, end):
                raise ValueError(f"{where} repeats the edge {start!r} -> {end!r}")
            graph.add_edge(start, end, **attributes)
    return graph


def _cells_read(cells: Mapping[str, str], where: str) -> dict[str, Any]:
    """Return an edge's attributes from its cells."""
    attributes: dict[str, Any] = {}
    for key in ("weight", "stability"):
        if cells.get(key):
            try:
                attributes[key] = float(cells[key])
            except ValueError:
                raise ValueError(f"{where}: the {key} must be a number, got {cells[key]!r}") from None
    undirected = cells.get("undirected", "").lower()
    if undirected not in _TRUTHS:
        raise ValueError(f"{where}: undirected must be true or false, got {undirected!r}")
    if _TRUTHS[undirected]:
        attributes["undirected"] = True
    return attributes


def share(value: float) -> str:
    """Return a share as a percentage that says 0 % or 100 % only where it is so."""
    percent = round(100 * value)
    if percent == 0 and value > 0:
        return "< 1 %"
    return "> 99 %" if percent == 100 and value < 1 else f"{percent} %"


def _write_dot(graph: nx.DiGraph[str]) -> str:
    lines = ["digraph {"]
    lines += [f"  {_quoted(node)};" for node in graph]
    for source, target, attributes in graph.edges(data=True):
        if attributes.get("undirected") and source > target:
            continue
        weight = f"{attributes['weight']:.3g}" if "weight" in attributes else ""
        stable = share(attributes["stability"]) if "stability" in attributes else ""
        label = f"{weight} ({stable})" if weight and stable else weight or stable
        shown = ["dir=none"] if attributes.get("undirected") else []
        shown += [f'label="{label}"'] if label else []
        drawn = f" [{', '.join(shown)}]" if shown else ""
        lines.append(f"  {_quoted(source)} -> {_quoted(target)}{drawn};")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(name: str) -> str:
    # What is not seen is spelt out. A doubled backslash is drawn as one; a final one would hide the quote.
    return '"' + json_escaped(name).replace("\\", "\\\\").replace('"', '\\"') + '"'


_WRITERS: dict[str, Callable[[nx.DiGraph[str]], str]] = {
    "graphml": _write_graphml,
    "dot": _write_dot,
    "json": _write_json,
    "csv": _write_csv,
}
_READERS: dict[str, Callable[[str], object]] = {
    "graphml": _read_graphml,
    "json": _read_json,
    "csv": _read_csv,
}
