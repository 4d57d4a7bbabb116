"""A learnt graph, printed: its edges, how sure each is under the noise, and what is to be known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from privfcd.cli.output import console, say

if TYPE_CHECKING:
    from rich.console import Console

    from privfcd.algorithms.stability import EdgeStability

INTERVAL, ALONE = "5 % to 95 %", "from noise alone"


def print_graph(summary: dict[str, Any], model: Any, stability: EdgeStability | None) -> None:
    """Print the edges of a run's summary, those of the largest weights first."""
    from rich.table import Table

    from privfcd.reports.html.wording import class_words, direction_words

    screen = console()
    if summary["judgement"] is not None:
        say(summary["judgement"]["text"])
    directed, undirected = marks(screen)
    rows = stability.rows(model.causal_graph_) if stability is not None else []
    found = {frozenset((row["from"], row["to"])): _cells(row) for row in rows}
    more = [
        heading
        for heading in (INTERVAL, "stability", ALONE)
        if heading == "stability" or any(cells[heading] for cells in found.values())
    ]
    weighted = any("weight" in edge for edge in summary["edges"])
    table = Table(title=f"Graph, number of edges: {len(summary['edges'])}", title_justify="left")
    for heading in ("cause", "", "effect"):
        table.add_column(heading)
    for heading in ([type(model).weight_name.lower()] if weighted else []) + (more if stability is not None else []):
        table.add_column(heading, justify="right")
    for edge in sorted(summary["edges"], key=lambda item: -abs(item.get("weight", 0.0))):
        cells = found.get(frozenset((edge["from"], edge["to"])), {})
        mark = undirected if edge.get("undirected") else directed
        weight = [f"{edge['weight']:.4g}" if "weight" in edge else ""] if weighted else []
        table.add_row(edge["from"], mark, edge["to"], *weight, *(cells[heading] for heading in more if cells))
    screen.print(table)
    for words in (class_words(model), direction_words(model)):
        if words:
            say(words)
    if stability is not None:
        say(f"Stability: {stability.method.removeprefix('Stability: ')}")
    metrics = summary["against_target"]
    if metrics is not None:
        say(
            f"Against the target of {metrics['edges_true']} edges: SHD {metrics['shd']} (an empty graph has "
            f"{metrics['edges_true']}), {metrics['directed_hits']} edges right, {metrics['undirected_hits']} right "
            f"up to direction, F1 {metrics['f1']:.2f}"
        )


def marks(screen: Console) -> tuple[str, str]:
    """Return an arrow and a line, as the terminal can show them."""
    return ("→", "–") if screen.encoding.lower().startswith("utf") else ("->", "--")


def _cells(row: dict[str, Any]) -> dict[str, str]:
    """Return what is known of an edge under the noise, by heading; "" for what is not."""
    from privfcd.graphs.interchange import share

    return {
        INTERVAL: "" if row["low"] is None else f"{row['low']:.2g} to {row['high']:.2g}",
        "stability": share(row["frequency"]),
        ALONE: "" if row["noise_alone"] is None else share(row["noise_alone"]),
    }
