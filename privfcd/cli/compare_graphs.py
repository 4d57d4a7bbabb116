"""privfcd compare graphs: two graphs on file, by the field's usual numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from privfcd.cli.commands import Command
from privfcd.cli.options import json_option
from privfcd.cli.output import check_apart, console, print_json, say, significant
from privfcd.cli.pictures import check_files, plot_option

if TYPE_CHECKING:
    import networkx as nx

    from privfcd.graphs import Pdag, PdagMetrics

ROWS = (
    ("SHD", "shd"),
    ("SHD, a reversal twice", "shd_reversal_twice"),
    ("SHD of the skeletons", "shd_skeleton"),
    ("edges: precision", "edge_precision"),
    ("edges: recall", "edge_recall"),
    ("edges: F1", "edge_f1"),
    ("skeleton: precision", "skeleton_precision"),
    ("skeleton: recall", "skeleton_recall"),
    ("skeleton: F1", "skeleton_f1"),
    ("reversed", "reversed"),
    ("directed in B only", "overdirected"),
    ("directed in A only", "undirected"),
)


@click.command(cls=Command)
@click.argument("first", metavar="A", type=click.Path())
@click.argument("second", metavar="B", type=click.Path())
@plot_option
@json_option
def graphs(first: str, second: str, plot: str | None, as_json: bool) -> None:
    """Compare graph B (a learnt one) with graph A (the known one).

    A and B are .graphml, .json or .csv files (what `privfcd learn --graph` writes; CSV: from,to). They may hold undirected
    edges: arcs both ways between two nodes. Both must have the same nodes; in CSV a node without edges is a row with an
    empty second cell. An edge is right where its direction is, or the lack of one. "class" compares the Markov
    equivalence classes (CPDAGs), where both graphs have one. --plot draws B, with A's edges marked.

    \b
    Examples:
      privfcd compare graphs truth.csv learnt.json
      privfcd compare graphs truth.csv learnt.json --plot both.png --json
    """
    from privfcd.errors import InvalidParameter
    from privfcd.graphs import Pdag, compare, compare_pdags, from_networkx, read_graph

    check_files(plot, graph=True)
    check_apart([plot] if plot else [], [first, second])
    one, other = read_graph(first), read_graph(second)
    missing, extra = [node for node in one if node not in other], [node for node in other if node not in one]
    if missing or extra:
        lacking = [(second, missing), (first, extra)]
        bare = [nodes[0] for path, nodes in lacking if nodes and path.lower().endswith(".csv")]
        row = f"; in CSV a node without edges is the row `{bare[0]},`" if bare else ""
        raise InvalidParameter(
            f"graphs must have the same nodes; {second!r} lacks {missing or 'none'}, {first!r} lacks {extra or 'none'}{row}"
        )
    if not len(one):
        raise InvalidParameter(f"graphs must have at least one node, got none in {first!r}")
    nodes = list(one)
    pdags = [Pdag.from_matrix(from_networkx(graph, nodes) != 0) for graph in (_unweighted(one), _unweighted(other))]
    found = compare_pdags(*pdags)
    classes = [_class_of(pdag) for pdag in pdags]
    of_classes = None if None in classes else compare_pdags(*classes)  # type: ignore[arg-type]
    if plot is not None:
        from privfcd.drawing import draw_graph

        draw_graph(other, plot, target=one, title=f"{second} against {first}")
    if as_json:
        directed = vars(compare(one, other))
        print_json(
            {
                "nodes": nodes,
                "a": {"path": first, **_counts(pdags[0])},
                "b": {"path": second, **_counts(pdags[1])},
                "directed": directed,
                "partially_directed": vars(found),
                "class": None if of_classes is None else vars(of_classes),
            }
        )
        return
    _print(first, second, pdags, found, of_classes)


def _unweighted(graph: nx.DiGraph[str]) -> nx.DiGraph[str]:
    """Return the graph with a weight of 1 on every edge: only their presence counts, and a weight may be 0."""
    plain: nx.DiGraph[str] = graph.__class__()
    plain.add_nodes_from(graph)
    plain.add_edges_from(graph.edges(), weight=1.0)
    return plain


def _class_of(graph: Pdag) -> Pdag | None:
    """Return the CPDAG of a DAG, or the graph itself if it is one; None if it stands for no equivalence class."""
    from privfcd.graphs import dag_to_cpdag, is_cpdag, is_dag

    if is_dag(graph):
        return dag_to_cpdag(graph)
    return graph if is_cpdag(graph) else None


def _kind(graph: Pdag) -> str:
    from privfcd.graphs import is_cpdag, is_dag, topological_order

    if is_dag(graph):
        return "DAG"
    if is_cpdag(graph):
        return "CPDAG"
    return "partially directed" if topological_order(graph) is not None else "with directed cycles"


def _counts(graph: Pdag) -> dict[str, Any]:
    directed, undirected = len(graph.directed_edges()), len(graph.undirected_edges())
    return {"kind": _kind(graph), "edges": directed + undirected, "directed": directed, "undirected": undirected}


def _print(first: str, second: str, pdags: list[Pdag], found: PdagMetrics, of_classes: PdagMetrics | None) -> None:
    from rich.table import Table

    for letter, path, pdag in zip("AB", (first, second), pdags, strict=True):
        counts = _counts(pdag)
        undirected = f", {counts['undirected']} of them undirected" if counts["undirected"] else ""
        say(f"{letter}: {path}, {counts['kind']}, {pdag.p} nodes, edges: {counts['edges']}{undirected}")
    table = Table(title="B against A", title_justify="left")
    table.add_column("")
    table.add_column("graph", justify="right")
    table.add_column("class (CPDAG)", justify="right")
    for label, name in ROWS:
        cells = ["-" if each is None else _number(getattr(each, name)) for each in (found, of_classes)]
        table.add_row(label, *cells)
    console().print(table)
    if of_classes is None:
        say("class: at least one of the two graphs is neither a DAG nor a CPDAG")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else significant(value, 3)
