"""A release of moments on columns of all kinds: is its noise what it says, is it better than one covariance?"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.output import Sink, write_csv
from privfcd.cli.output import console, print_json

Array = NDArray[np.float64]

FACTORS: dict[str, tuple[Any, ...]] = {
    "d": (10, 5, 30, 100),
    "sds": ("equal", "standardised", "0.5 to 2", "0.5 to 2, standardised"),
    "apart": (1.0, 1e3, 1e6),
    "law": ("normal", "exponential", "t3"),
    "binary": (0.0, 0.02, 0.1, 0.5),
    "collinear": (False, True),
    "mean": (0.0, 100.0),
    "rows": (2000, 200, 50_000),
    "parties": (5, 1, 2, 20),
    "epsilon": (3.0, 0.5, 1.0, 5.0, 10.0),
    "relation": ("replace", "add or remove"),
    "center": (True, False),
}
"""Factors of the grid; the first value of each is the base cell's."""

MOST_NUMBERS = 10_000_000
"""A cell's tables hold at most so many numbers: rows are fewer where there would be more."""


@dataclass(frozen=True)
class Cell:
    """One combination of factors."""

    d: int = 10
    sds: str = "equal"
    apart: float = 1.0
    law: str = "normal"
    binary: float = 0.0
    collinear: bool = False
    mean: float = 0.0
    rows: int = 2000
    parties: int = 5
    epsilon: float = 3.0
    relation: str = "replace"
    center: bool = True

    @property
    def name(self) -> str:
        """What differs from the base cell."""
        base = Cell()
        own = [
            f"{f.name} {getattr(self, f.name)}" for f in fields(self) if getattr(self, f.name) != getattr(base, f.name)
        ]
        return ", ".join(own) or "base"


@dataclass(frozen=True)
class Found:
    """What one run came to; None where it was refused for want of budget."""

    cell: str
    seed: int
    z: float | None = None
    largest: float | None = None
    gross: int | None = None
    factor: float | None = None
    unknown: int | None = None
    error: float | None = None
    covariance: float | None = None
    ges: float | None = None
    pc: float | None = None
    seconds: float = 0.0


def cells(combinations: int, seed: int) -> list[Cell]:
    """Return the base cell, each factor alone, and random combinations."""
    base = Cell()
    alone = [replace(base, **{name: value}) for name, values in FACTORS.items() for value in values[1:]]
    rng = np.random.default_rng(seed)
    drawn: list[Cell] = []
    while len(drawn) < combinations:
        chosen = {name: values[int(rng.integers(len(values)))] for name, values in FACTORS.items()}
        if chosen["center"] or not chosen["mean"]:  # means that are said to be 0 are 0
            drawn.append(Cell(**chosen))
    return [base, *alone, *drawn]


def simulate(cell: Cell, seed: int) -> tuple[Array, list[Array]]:
    """Return the weights and the parties' rows."""
    from privfcd.datasets.simulate import linear_gaussian

    rng = np.random.default_rng([seed, 18])
    rows = max(50, min(cell.rows, MOST_NUMBERS // (cell.d * cell.parties)))
    weights = linear_gaussian(cell.d, parties=1, rows=1, seed=seed).weights.copy()
    d, n = cell.d, rows * cell.parties
    if cell.law == "normal":
        errors = rng.standard_normal((n, d))
    elif cell.law == "exponential":
        errors = rng.exponential(size=(n, d)) - 1
    else:
        errors = rng.standard_t(3, (n, d)) / math.sqrt(3)
    if cell.sds.startswith("0.5"):
        errors *= np.exp(rng.uniform(math.log(0.5), math.log(2), d))
    table = errors @ np.linalg.inv(np.eye(d) - weights)
    if cell.binary:  # the last two columns are marks of their own
        weights[:, -2:] = weights[-2:] = 0.0
        table = errors @ np.linalg.inv(np.eye(d) - weights)
        table[:, -2:] = rng.random((n, 2)) < cell.binary
        if not cell.center:
            table[:, -2:] -= cell.binary
    if cell.collinear:
        weights[:, 0] = weights[0] = 0.0
        table = table if cell.binary else errors @ np.linalg.inv(np.eye(d) - weights)
        table[:, 0] = table[:, 1] + math.sqrt(1 / 0.999**2 - 1) * table[:, 1].std() * rng.standard_normal(n)
        weights[1, 0] = 1.0
    if cell.sds.endswith("standardised"):
        table = table / table.std(axis=0)
    table = table + cell.mean * table.std(axis=0)
    table = table * cell.apart ** rng.permutation(np.linspace(-0.5, 0.5, d))
    return weights, np.split(table, cell.parties)


def truth_of(parts: Sequence[Array], center: bool) -> Array:
    """Return the second moments of all rows, each party's mean taken off where means are."""
    shifted = [part - part.mean(axis=0) if center else part for part in parts]
    return np.asarray(sum(part.T @ part for part in shifted) / sum(map(len, parts)))


def run(cell: Cell, seed: int, learn: bool = True) -> Found:
    """Run one cell once."""
    import privfcd as pf
    from privfcd.accounting import ADD_OR_REMOVE_ONE, REPLACE_ONE
    from privfcd.algorithms.release import release_moments
    from privfcd.graphs import compare_pdags, dag_to_cpdag

    began = time.process_time()
    weights, parts = simulate(cell, seed)
    added = cell.relation != "replace"

    def tables(bounds: float | None = None) -> list[Any]:
        return [
            pf.PrivateTable(
                part,
                name=f"p{k}",
                budget=pf.Budget(cell.epsilon, 1 / len(part) ** 2),
                noise=pf.SimulatedNoise(seed),
                relation=ADD_OR_REMOVE_ONE if added else REPLACE_ONE,
                declared_rows=len(part) if added else None,
            )
            for k, part in enumerate(parts)
        ]

    truth = truth_of(parts, cell.center)
    size = np.sqrt(np.diag(truth))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            release = release_moments(tables(), method="preconditioned", center=cell.center)
        except pf.BudgetExceeded:
            return Found(cell.name, seed, seconds=time.process_time() - began)
        found = release.moments
        assert found.noise_sd is not None
        factor = float(np.median(np.diag(found.matrix) / np.diag(truth)))
        factor = factor if factor > 0 else 1.0
        away = found.matrix / factor - truth
        z = away * factor / found.noise_sd
        relative = np.abs(away) / np.outer(size, size)
        root = np.linalg.inv(np.linalg.cholesky(truth + 1e-12 * np.diag(size**2)))
        error = float(np.sqrt(np.mean((root @ away @ root.T) ** 2)))
        other = None
        try:
            one = release_moments(tables(), method="covariance", center=cell.center).moments
            scale = float(np.median(np.diag(one.matrix) / np.diag(truth)))
            less = one.matrix / (scale if scale > 0 else 1.0) - truth
            other = float(np.sqrt(np.mean((root @ less @ root.T) ** 2)))
        except pf.BudgetExceeded:
            pass
        shd = {}
        if learn and cell.d <= 30:
            cpdag = dag_to_cpdag((weights != 0).astype(int))
            for name in ("GES", "PC"):
                shd[name] = float(compare_pdags(cpdag, getattr(pf, name)().fit(found).cpdag_).shd)
    return Found(
        cell.name,
        seed,
        float(np.sqrt(np.mean(z**2))),
        float(np.abs(z).max()),
        int(((np.abs(z) > 5) & (relative > 0.2)).sum()),
        factor,
        len(release.rule.get("unknown", [])),
        error,
        other,
        shd.get("GES"),
        shd.get("PC"),
        time.process_time() - began,
    )


def summary(found: Sequence[Found]) -> dict[str, Any]:
    """Return one line of the table."""
    done = [one for one in found if one.z is not None]

    def middle(name: str) -> float | None:
        values = [getattr(one, name) for one in done if getattr(one, name) is not None]
        return float(np.median(values)) if values else None

    def mean(name: str) -> float | None:
        values = [getattr(one, name) for one in done if getattr(one, name) is not None]
        return float(np.mean(values)) if values else None

    z = [one.z for one in done if one.z is not None]
    better = [one.error / one.covariance for one in done if one.error is not None and one.covariance]
    return {
        "cell": found[0].cell,
        "runs": len(found),
        "refused": len(found) - len(done),
        "z": float(np.sqrt(np.mean(np.square(z)))) if z else None,
        "gross": sum(bool(one.gross) for one in done),
        "factor": middle("factor"),
        "unknown": mean("unknown"),
        "error": middle("error"),
        "to covariance": float(np.median(better)) if better else None,
        "GES": mean("ges"),
        "PC": mean("pc"),
        "seconds": mean("seconds"),
    }


def show_grid(combinations: int, runs: int, first: int, sink: Sink) -> None:
    """Run the grid, and print and write it: the base cell, each factor alone, and random combinations.

    Run k of cell c has seed `first` + c `runs` + k, for its table and its noise.
    """
    from rich.table import Table

    lines, rows = [], []
    for number, cell in enumerate(cells(combinations, first)):
        found = [run(cell, first + number * runs + k) for k in range(runs)]
        lines.append(summary(found))
        rows += [asdict(one) for one in found]
    if sink.csv_file is not None:
        write_csv(sink.csv_file, rows)
    if sink.as_json:
        print_json({"cells": lines, "runs": rows})
        return
    table = Table(title=f"Rounds of moments by cell; {runs} runs each, seeds from {first} on", title_justify="left")
    for heading in lines[0]:
        table.add_column(heading, justify="left" if heading == "cell" else "right")
    for line in lines:
        table.add_row(
            *(
                "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
                for value in line.values()
            )
        )
    console().print(table)
    done = [row for row in rows if row["z"] is not None]
    bad = sum(bool(row["gross"]) for row in done)
    console().print(
        f"{len(done)} releases of {len(rows)} asked for; {bad} with a gross error (5 stated sds and 0.2 of a correlation)"
    )
