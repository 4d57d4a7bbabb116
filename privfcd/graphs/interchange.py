"""Graphs to files and back: GraphML, DOT, JSON (node-link) and CSV edge lists.

What a file carries is the graph's nodes, its edges and their weights; other attributes are not written. The
format follows from the suffix:

======== ============== ========= ==================================================================
format   suffixes       read too  content
======== ============== ========= ==================================================================
graphml  .graphml       yes       GraphML as networkx writes it
dot      .dot .gv       no        Graphviz, for drawing; a weight is a label of three digits
json     .json          yes       node-link JSON, the form of networkx 3.4 and later
csv      .csv           yes       header from,to,weight; a node without edges is a row with empty `to`
======== ============== ========= ==================================================================
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import ParseError

import networkx as nx

from privfcd.checks import real
from privfcd.errors import InvalidParameter
from privfcd.graphs.dag import plain_digraph

_SUFFIXES = {".graphml": "graphml", ".dot": "dot", ".gv": "dot", ".json": "json", ".csv": "csv"}
_UNREADABLE = (
    ParseError,
    csv.Error,
    nx.NetworkXException,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    RecursionError,
)
_HEADERS = (("from", "to"), ("cause", "effect"), ("source", "target"))
# The characters that XML 1.0 can carry: one rule for all formats, so that any file can become any other.
_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_graph(graph: nx.DiGraph[str], path: str | os.PathLike[str], format: str | None = None) -> None:
    """Write a directed graph to a file, whole or not at all.

    The content goes to a temporary file in the same folder, which then takes the place of `path` in one step:
    a crash leaves the old file or the new one, never half of one.

    Parameters
    ----------
    graph : networkx.DiGraph
        Nodes are texts; the edge attribute `weight`, where it is there, is a finite number.
    path : path
        Its suffix gives the format: .graphml, .dot, .gv, .json or .csv.
    format : {"graphml", "dot", "json", "csv"}, optional
        The format, whatever the suffix says.

    Raises
    ------
    InvalidParameter
        Unknown format or suffix; a graph that is not a plain DiGraph; a name that is empty, not a text, or
        holds a control character; a weight that is not a finite number; a folder that cannot be written to.
    """
    target = _as_path(path)
    kind = _format_of(target, format, tuple(_WRITERS))
    content = _WRITERS[kind](_plain(graph, "graph"))
    try:
        _replace(target, content.encode("utf-8"))
    except OSError as error:
        raise InvalidParameter(f"path {str(target)!r} cannot be written: {error.strerror}") from error


def read_graph(path: str | os.PathLike[str], format: str | None = None) -> nx.DiGraph[str]:
    """Read a directed graph from a GraphML, JSON or CSV file.

    Parameters
    ----------
    path : path
        A file with the suffix .graphml, .json or .csv. A CSV file starts with a header, `from,to`,
        `Cause,Effect` or `source,target`, in any case, with or without a third column `weight`; a row with an
        empty second cell is a node without edges.
    format : {"graphml", "json", "csv"}, optional
        The format, whatever the suffix says.

    Returns
    -------
    networkx.DiGraph
        With the edge attribute `weight` (float) where the file gives one.

    Raises
    ------
    InvalidParameter
        No such file, unknown format or suffix, or a content that is not such a graph.
    """
    source = _as_path(path)
    kind = _format_of(source, format, tuple(_READERS))
    what = f"path {str(source)!r}"
    if not source.exists():
        raise InvalidParameter(f"{what} must be a graph file; there is no such file")
    try:
        text = source.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InvalidParameter(f"{what} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidParameter(f"{what} must be UTF-8 text: {error}") from error
    try:
        graph = _READERS[kind](text)
    except _UNREADABLE as error:
        raise InvalidParameter(f"{what} is not a {kind} graph: {error}") from error
    return _plain(graph, what)


def _plain(graph: object, what: str) -> nx.DiGraph[str]:
    """Return a copy that holds names and weights only, all checked."""
    given = plain_digraph(what, graph)
    plain: nx.DiGraph[str] = nx.DiGraph()
    for node in given:
        if not isinstance(node, str) or not node:
            raise InvalidParameter(f"{what}: node names must be non-empty texts, got {node!r}")
        if _UNWRITABLE.search(node):
            raise InvalidParameter(f"{what}: node names must not hold control characters, got {node!r}")
        plain.add_node(node)
    for source, target, attributes in given.edges(data=True):
        weight = attributes.get("weight")
        if weight is None:
            plain.add_edge(source, target)
            continue
        plain.add_edge(source, target, weight=real(f"{what}: weight of {source!r} -> {target!r}", weight))
    return plain


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


def _replace(path: Path, content: bytes) -> None:
    final = Path(os.path.realpath(path))
    temporary = final.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if final.exists():
            shutil.copymode(final, temporary)
        os.replace(temporary, final)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write_graphml(graph: nx.DiGraph[str]) -> str:
    buffer = io.BytesIO()
    nx.write_graphml_xml(graph, buffer)
    return buffer.getvalue().decode("utf-8")


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
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def _read_json(text: str) -> object:
    data: Any = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError("expected an object with nodes and edges")
    if data.get("directed") is not True or data.get("multigraph", False):
        raise ValueError('expected "directed": true, and no "multigraph": true')
    graph: nx.DiGraph[Any] = nx.DiGraph()
    graph.add_nodes_from(node["id"] for node in data["nodes"])
    edges = data["edges"] if "edges" in data else data["links"]  # networkx before 3.4 wrote links
    graph.add_edges_from((edge["source"], edge["target"], {"weight": edge.get("weight")}) for edge in edges)
    return graph


def _write_csv(graph: nx.DiGraph[str]) -> str:
    weighted = any("weight" in attributes for _, _, attributes in graph.edges(data=True))
    lines = ["from,to,weight" if weighted else "from,to"]
    for node in graph:
        if graph.degree(node) == 0:
            lines.append(_cell(node) + ("," * (2 if weighted else 1)))
        for target, attributes in graph.adj[node].items():
            cells = [_cell(node), _cell(target)]
            if weighted:
                cells.append(repr(attributes["weight"]) if "weight" in attributes else "")
            lines.append(",".join(cells))
    return "\n".join(lines) + "\n"


def _cell(name: str) -> str:
    if name == name.strip() and not re.search('[,"\r\n]', name):
        return name
    return '"' + name.replace('"', '""') + '"'


def _read_csv(text: str) -> object:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    header = [cell.strip().lower() for cell in next(rows, [])]
    width = len(header)
    if tuple(header[:2]) not in _HEADERS or header[2:] not in ([], ["weight"]):
        forms = " or ".join(",".join(pair) for pair in _HEADERS)
        raise ValueError(f"the first line must be {forms}, with or without ,weight; got {','.join(header)!r}")
    graph: nx.DiGraph[str] = nx.DiGraph()
    for row in rows:
        where = f"line {rows.line_num}"
        if not row:
            continue
        if len(row) != width:
            raise ValueError(f"{where} has {len(row)} cells, the header has {width}")
        source, target = row[0], row[1]
        weight = row[2].strip() if width == 3 else ""
        if not source or (weight and not target):
            raise ValueError(f"{where} must name both ends of the edge")
        if not target:
            graph.add_node(source)
        elif graph.has_edge(source, target):
            raise ValueError(f"{where} repeats the edge {source!r} -> {target!r}")
        elif not weight:
            graph.add_edge(source, target)
        else:
            try:
                graph.add_edge(source, target, weight=float(weight))
            except ValueError:
                raise ValueError(f"{where}: the weight must be a number, got {weight!r}") from None
    return graph


def _write_dot(graph: nx.DiGraph[str]) -> str:
    lines = ["digraph {"]
    lines += [f"  {_quoted(node)};" for node in graph]
    for source, target, attributes in graph.edges(data=True):
        label = f' [label="{attributes["weight"]:.3g}"]' if "weight" in attributes else ""
        lines.append(f"  {_quoted(source)} -> {_quoted(target)}{label};")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(name: str) -> str:
    # A doubled backslash is drawn as one, and keeps a final backslash from hiding the closing quote.
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


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
