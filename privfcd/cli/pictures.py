"""The options for a picture and a table on file, and their checks before anything is computed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from privfcd.cli.commands import option
from privfcd.cli.output import check_apart, check_writable

PICTURES = (".png", ".svg", ".pdf")

plot_option = option(
    "--plot", type=click.Path(dir_okay=False), metavar="FILE", help="Draw it: .png, .svg or .pdf (extra `plot`)."
)


def check_files(plot: str | None, csv_file: str | None = None, *, graph: bool = False) -> None:
    """Refuse files that could not be written, and pictures without Matplotlib, before anything is computed.

    A `graph` is drawn by our own code: as .svg it needs no Matplotlib.
    """
    if plot is not None and Path(plot).suffix.lower() not in PICTURES:
        raise click.UsageError(f"file {plot!r} must end in one of {', '.join(PICTURES)}")
    paths = [path for path in (plot, csv_file) if path is not None]
    for path in paths:
        check_writable(path)
    check_apart(paths, ())
    if plot is not None:
        check_drawn(plot, graph=graph)


def check_drawn(plot: str, *, graph: bool) -> None:
    """Refuse a picture that needs Matplotlib, if there is none."""
    if graph and plot.lower().endswith(".svg"):
        return
    if find_spec("matplotlib") is None:
        other = " (or write an .svg)" if graph else ""
        raise click.UsageError(f"--plot needs Matplotlib: pip install 'privfcd[plot]'{other}")
