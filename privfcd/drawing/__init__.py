"""Pictures of graphs, in layers: SVG text, or a PNG, SVG or PDF file."""

from privfcd.drawing.picture import draw_graph
from privfcd.drawing.svg import graph_svg

__all__ = ["draw_graph", "graph_svg"]
