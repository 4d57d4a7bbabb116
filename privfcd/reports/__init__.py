"""Results for people and machines: text, JSON and pictures."""

from privfcd.reports.attack_picture import draw_attack
from privfcd.reports.audit_picture import draw_audit
from privfcd.reports.checks_picture import draw_sampler, draw_sensitivities
from privfcd.reports.files import write_whole
from privfcd.reports.graph_picture import draw_graph
from privfcd.reports.regimes_picture import draw_regimes
from privfcd.reports.run import privacy_text, run_summary

__all__ = [
    "draw_attack",
    "draw_audit",
    "draw_graph",
    "draw_regimes",
    "draw_sampler",
    "draw_sensitivities",
    "privacy_text",
    "run_summary",
    "write_whole",
]
