"""Order search on private moments where its assumptions or its budget end."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import spread
from benchmarks.paper.experiments import PARTIES, ROWS
from benchmarks.paper.output import Sink, write_csv
from benchmarks.progress import with_progress
from privfcd.cli.output import console, print_json
from privfcd.errors import BudgetExceeded

Array = NDArray[np.float64]
_FIELDS = ("shd", "tpr", "fdr")
_TEST_LEVEL = 0.01


@dataclass(frozen=True)
class Setting:
    """One line of the table of limits: the instance, and what is unusual about it."""

    name: str
    seed: int
    epsilon: float | None
    d: int = 20
    parties: int = PARTIES
    rows: int = ROWS
    heterogeneous: bool = False
    ratio: float = 1.0
    freedom: float = math.inf


@dataclass(frozen=True)
class Limit:
    """What order search came to in a setting; None where the release was refused."""

    name: str
    seed: int
    epsilon: float | None
    shd: float | None
    tpr: float | None
    fdr: float | None
    p_value: float | None
    seconds: float


def accuracy(truth: Array, model: Any) -> dict[str, Any]:
    """Return SHD, TPR and FDR of a fitted model."""
    from privfcd.graphs import compare

    found = compare(truth, model.adjacency_matrix_)
    return {"shd": float(found.shd), "tpr": found.tpr, "fdr": found.fdr}


def budgeted_tables(parts: Iterable[Array], epsilon: float | None, seed: int) -> list[Any]:
    """Return a table for each party, with delta = 1/n² and noise simulated from the seed."""
    from privfcd import Budget, PrivateTable, SimulatedNoise

    return [
        PrivateTable(
            part,
            name=f"party-{index}",
            budget=None if epsilon is None else Budget(epsilon, 1 / len(part) ** 2),
            noise=SimulatedNoise(seed),
        )
        for index, part in enumerate(parts)
    ]


def limit_settings(seeds: Sequence[int], quick: bool) -> list[Setting]:
    """Return the settings of the table of limits, each for every seed."""
    lines: list[dict[str, Any]] = [{"name": "as in the paper"}]
    lines += [{"name": "heterogeneous weights", "heterogeneous": True}]
    lines += [
        {"name": f"error variances 1 to {ratio:g}", "ratio": ratio} for ratio in ((4.0,) if quick else (1.5, 4.0))
    ]
    lines += [{"name": f"t errors, {v:g} degrees", "freedom": v} for v in ((5.0,) if quick else (10.0, 5.0, 3.0))]
    if not quick:
        lines += [{"name": f"{n} rows a party", "rows": n} for n in (200, 500, 1000, 2000, 20000, 50000)]
        lines += [{"name": f"{parties} parties", "parties": parties} for parties in (1, 2, 4, 20, 50)]
    epsilons = (1.0,) if quick else (None, 1.0)
    return [Setting(seed=seed, epsilon=epsilon, **line) for line in lines for epsilon in epsilons for seed in seeds]


def simulate(setting: Setting) -> tuple[Array, list[Array]]:
    """Return the weights and the parties' rows.

    Errors are read back from the rows of `linear_gaussian` and changed: to variances that go from 1 to `ratio` over the
    variables in a random order, geometrically, or to Student's t of the same variance.
    """
    from privfcd.datasets.simulate import linear_gaussian

    simulation = linear_gaussian(
        setting.d,
        parties=setting.parties,
        rows=setting.rows,
        seed=setting.seed,
        heterogeneous=setting.heterogeneous,
    )
    if setting.ratio == 1 and math.isinf(setting.freedom):
        return simulation.weights, simulation.tables
    rng = np.random.default_rng([setting.seed, 12])
    scale = np.sqrt(setting.ratio ** rng.permutation(np.linspace(0, 1, setting.d)))
    changed = []
    for table, own in zip(simulation.tables, simulation.party_weights, strict=True):
        through = np.eye(setting.d) - own
        errors = table @ through * scale
        if math.isfinite(setting.freedom):
            v = setting.freedom
            errors *= np.sqrt((v - 2) / rng.chisquare(v, errors.shape))
        changed.append(errors @ np.linalg.inv(through))
    return simulation.weights, changed


def run_setting(setting: Setting) -> Limit:
    """Run order search in one setting."""
    from privfcd import EqualVarianceSearch

    weights, parts = simulate(setting)
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = EqualVarianceSearch(center=False).fit(budgeted_tables(parts, setting.epsilon, setting.seed))
    except BudgetExceeded:
        return Limit(setting.name, setting.seed, setting.epsilon, None, None, None, None, time.perf_counter() - began)
    seconds = time.perf_counter() - began
    return Limit(
        name=setting.name,
        seed=setting.seed,
        epsilon=setting.epsilon,
        **accuracy(weights, model),
        p_value=model.equal_variances_.p_value,
        seconds=seconds,
    )


def sachs_rows(epsilons: Sequence[float | None], seed: int) -> list[dict[str, Any]]:
    """Return one row for each epsilon: order search on log(1 + x) of the Sachs data, means paid for, one party."""
    from privfcd import EqualVarianceSearch
    from privfcd.datasets.sachs import sachs
    from privfcd.graphs import compare, from_networkx

    data = sachs()
    truth = from_networkx(data.targets["consensus17"], data.columns)
    rows = []
    for epsilon in epsilons:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = EqualVarianceSearch(center=True).fit(budgeted_tables([np.log1p(data.rows)], epsilon, seed))
        found = compare(truth, model.adjacency_matrix_)
        rows.append(
            {
                "epsilon": math.inf if epsilon is None else epsilon,
                "edges": found.edges,
                "shd": found.shd,
                "directed hits": found.directed_hits,
                "undirected hits": found.undirected_hits,
                "f1": found.f1,
                "p of equal variances": model.equal_variances_.p_value,
            }
        )
    return rows


def show_limits(settings: Sequence[Setting], jobs: int | None, sink: Sink) -> None:
    """Run the table of limits, and print and write it."""
    from rich.table import Table

    found = list(with_progress(run_setting, settings, jobs, "settings"))
    real = sachs_rows((None, 10.0), settings[0].seed)
    if sink.csv_file is not None:
        write_csv(sink.csv_file, [asdict(limit) for limit in found])
    if sink.as_json:
        print_json({"runs": [asdict(limit) for limit in found], "sachs": real})
        return
    table = Table(title="Order search at its limits; d = 20, delta = 1/n²", title_justify="left")
    for heading in (
        "setting",
        "epsilon",
        "runs",
        "refused",
        "SHD",
        "TPR",
        "FDR",
        "equal variances rejected",
        "seconds",
    ):
        table.add_column(heading, justify="left" if heading == "setting" else "right")
    groups: dict[tuple[str, float | None], list[Limit]] = {}
    for limit in found:
        groups.setdefault((limit.name, limit.epsilon), []).append(limit)
    for (name, epsilon), group in groups.items():
        done = [limit for limit in group if limit.shd is not None]
        numbers = [spread(getattr(one, field) for one in done) for field in _FIELDS] if done else ["-"] * 3
        rejected = sum(limit.p_value is not None and limit.p_value < _TEST_LEVEL for limit in done)
        table.add_row(
            name,
            "inf" if epsilon is None else f"{epsilon:g}",
            str(len(group)),
            str(len(group) - len(done)),
            *numbers,
            f"{rejected} of {len(done)}",
            spread(limit.seconds for limit in group),
        )
    console().print(table)
    table = Table(
        title="Sachs, log(1 + x), 7466 rows in one place, against the 17 consensus edges", title_justify="left"
    )
    for heading in real[0]:
        table.add_column(heading, justify="right")
    for row in real:
        table.add_row(*(f"{value:.4g}" for value in row.values()))
    console().print(table)
