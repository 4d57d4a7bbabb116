"""Results for people and machines: text, JSON and pictures."""

from privfcd.reports.files import write_whole
from privfcd.reports.graph_picture import draw_graph
from privfcd.reports.regimes_picture import draw_regimes
from privfcd.reports.run import privacy_text, run_summary

__all__ = ["draw_graph", "draw_regimes", "privacy_text", "run_summary", "write_whole"]
