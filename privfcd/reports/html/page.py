"""The page's two functions: as text, and into a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date as Date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privfcd import checks
from privfcd.ledger.privacy_report import rounded_up
from privfcd.markup import writable
from privfcd.reports.html import wording
from privfcd.reports.html.context import check_fitted, context
from privfcd.reports.run import privacy_text
from privfcd.whole_files import write_whole

if TYPE_CHECKING:
    import networkx as nx
    from jinja2 import Environment

SUFFIXES = (".html", ".htm", ".txt")


def report_html(
    model: Any,
    *,
    target: nx.DiGraph[str] | None = None,
    seconds: float | None = None,
    command: str | Sequence[str] | None = None,
    title: str | None = None,
    date: Date | None = None,
) -> str:
    """Return the report on a run as one HTML page that loads nothing and runs no script.

    It shows the promise to each party, the graph with what the noise may have done to it, the budget, the course of the
    run, every parameter, and how to run it again. It is made from the fitted model's public results; no row is read, and
    nothing is charged.

    Parameters
    ----------
    model : estimator
        Fitted, to tables or to moments.
    target : networkx.DiGraph, optional
        A graph on the same variables to compare with.
    seconds : float, optional
        Wall time of the run.
    command : str or sequence of str, optional
        The command line that made the run; a sequence is quoted for a shell.
    title : str, optional
        The page's title.
    date : datetime.date or datetime.datetime, optional
        When the page was made; now by default.

    Returns
    -------
    str
        An HTML document for UTF-8.

    Raises
    ------
    InvalidParameter
        The model is not fitted, the target is on other variables, or an argument is not of its kind.
    """
    page = _environment().get_template("report.html").render(context(model, target, seconds, command, title, date))
    return writable(page)  # names were spelt out; this is for texts of reports, which may come from others


def write_report(
    path: str | os.PathLike[str],
    model: Any,
    *,
    target: nx.DiGraph[str] | None = None,
    seconds: float | None = None,
    command: str | Sequence[str] | None = None,
    title: str | None = None,
    date: Date | None = None,
) -> None:
    """Write the report on a run: the page into a file that ends in .html or .htm, the privacy report's text into .txt.

    Parameters
    ----------
    path : path
        The file; it is written whole or not at all.
    model, target, seconds, command, title, date
        As of `report_html`; the text is of the privacy alone.

    Raises
    ------
    InvalidParameter
        As `report_html`, the suffix is another one, or the file cannot be written.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        raise checks.refuse("path", os.fspath(path), "a file that ends in .html, .htm or .txt")
    if suffix == ".txt":
        check_fitted(model)
        text = privacy_text(model)
    else:
        text = report_html(model, target=target, seconds=seconds, command=command, title=title, date=date)
    write_whole(path, text.encode("utf-8", "backslashreplace"))


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("privfcd.reports.html", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        up=rounded_up,
        number=wording.number,
        percent=wording.percent,
        counted=wording.counted,
        size=wording.size,
        duration=wording.duration,
        printable=wording.printable,
        value_text=wording.value_text,
    )
    return made
