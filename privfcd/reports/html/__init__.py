"""The report on a run as one HTML file that needs nothing else: no network, no script."""

from privfcd.reports.html.page import report_html, write_report

__all__ = ["report_html", "write_report"]
