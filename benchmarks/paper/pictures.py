"""Pictures of the paper's figures: SHD, TPR and FDR of several methods, with bands of one standard deviation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from benchmarks.paper.experiments import Outcome
from benchmarks.paper.output import grouped

PANELS = (("shd", "SHD"), ("tpr", "TPR"), ("fdr", "FDR"))


@dataclass(frozen=True)
class Line:
    """One method's line: x, and for each panel mean and standard deviation."""

    label: str
    x: list[float]
    values: dict[str, list[tuple[float, float]]]


def lines_over(outcomes: Sequence[Outcome], x: Callable[[Outcome], float], together: str | None = None) -> list[Line]:
    """Return a line for each label, or one called `together` for all."""
    lines = []
    for label, group in grouped(outcomes, lambda outcome: together or outcome.label).items():
        points = dict(sorted(grouped(group, x).items()))
        values = {
            field: [_mean_and_sd([getattr(outcome, field) for outcome in at]) for at in points.values()]
            for field, _ in PANELS
        }
        lines.append(Line(label, list(points), values))
    return lines


def lines_over_rounds(outcomes: Sequence[Outcome]) -> list[Line]:
    """Return a line over the rounds for each label whose runs kept them."""
    lines = []
    for label, group in grouped(outcomes, lambda outcome: outcome.label).items():
        numbers = [entry[0] for entry in group[0].rounds]
        if not numbers:
            continue
        values = {
            field: [_mean_and_sd([outcome.rounds[at][place] for outcome in group]) for at in range(len(numbers))]
            for place, (field, _) in enumerate(PANELS, start=1)
        }
        lines.append(Line(label, [float(number) for number in numbers], values))
    return lines


def _mean_and_sd(values: Sequence[float]) -> tuple[float, float]:
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def draw_lines(
    path: Path,
    lines: Sequence[Line],
    label: str,
    title: str,
    *,
    log: bool = False,
    flat: Sequence[tuple[str, Mapping[str, float]]] = (),
    marks: Sequence[tuple[str, float, float]] = (),
) -> None:
    """Draw SHD, TPR and FDR: bands of one standard deviation, `flat` references, `marks` of the paper's SHD."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    axes = figure.subplots(1, 3)
    for axis, (field, name) in zip(axes, PANELS, strict=True):
        for line in lines:
            means, sds = ([point[place] for point in line.values[field]] for place in (0, 1))
            (drawn,) = axis.plot(line.x, means, marker="o", markersize=3, label=line.label)
            low = [mean - sd for mean, sd in zip(means, sds, strict=True)]
            high = [mean + sd for mean, sd in zip(means, sds, strict=True)]
            axis.fill_between(line.x, low, high, color=drawn.get_color(), alpha=0.15)
        for text, values in flat:
            axis.axhline(values[field], linestyle="--", color="black", linewidth=1, label=text)
        if field == "shd":
            for text, x, y in marks:
                axis.plot([x], [y], linestyle="", marker="x", markersize=8, color="black", label=text)
        if log:
            axis.set_xscale("log")
        axis.set_xlabel(label)
        axis.set_ylabel(name)
    axes[0].legend(fontsize=8)
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
