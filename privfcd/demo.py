"""The demonstration: the bundled Sachs data as if three hospitals held a third of it each.

Every value is replaced by log(1 + x) first, as is usual for such measurements: a public transformation of each record on
its own, which needs no budget. On the raw scale the graph is further from the target. All settings are defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privfcd.algorithms.fed_sparse import FedSparseBNSL, RoundRecord
from privfcd.data.datasets import Dataset, sachs
from privfcd.data.tables import split_rows
from privfcd.learning import learn
from privfcd.mechanisms import NoiseSource

PARTIES = ("hospital-1", "hospital-2", "hospital-3")
TARGET = "cdt18"
SPLIT_SEED = 0


@dataclass(frozen=True)
class Demo:
    """What the demonstration came to."""

    model: FedSparseBNSL
    data: Dataset


def run_demo(
    *,
    epsilon: float | None = 5.0,
    noise: NoiseSource | None = None,
    on_round: Callable[[RoundRecord], None] | None = None,
) -> Demo:
    """Learn the Sachs graph from three parties; `epsilon` None runs without privacy."""
    data = sachs()
    parts = split_rows(data.rows, parties=len(PARTIES), seed=SPLIT_SEED)
    import pandas as pd

    frames = [pd.DataFrame(np.log1p(part), columns=list(data.columns)) for part in parts]
    model = learn(
        frames,
        epsilon=epsilon,
        private=epsilon is not None,
        noise=noise,
        names=PARTIES,
        on_round=on_round,
    )
    return Demo(model, data)
