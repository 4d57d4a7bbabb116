"""Results for people and machines: text, JSON, a page and pictures; each part is imported when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privfcd.reports.attack_picture import draw_attack as draw_attack
    from privfcd.reports.audit_picture import draw_audit as draw_audit
    from privfcd.reports.checks_picture import draw_sampler as draw_sampler
    from privfcd.reports.checks_picture import draw_sensitivities as draw_sensitivities
    from privfcd.reports.html import report_html as report_html
    from privfcd.reports.html import write_report as write_report
    from privfcd.reports.privacy_picture import draw_privacy as draw_privacy
    from privfcd.reports.regimes_picture import draw_regimes as draw_regimes
    from privfcd.reports.run import privacy_text as privacy_text
    from privfcd.reports.run import run_summary as run_summary

_HOME_OF = {
    "draw_attack": "attack_picture",
    "draw_audit": "audit_picture",
    "draw_privacy": "privacy_picture",
    "draw_regimes": "regimes_picture",
    "draw_sampler": "checks_picture",
    "draw_sensitivities": "checks_picture",
    "privacy_text": "run",
    "report_html": "html",
    "run_summary": "run",
    "write_report": "html",
}

__all__ = [
    "draw_attack",
    "draw_audit",
    "draw_privacy",
    "draw_regimes",
    "draw_sampler",
    "draw_sensitivities",
    "privacy_text",
    "report_html",
    "run_summary",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
