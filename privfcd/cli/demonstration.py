"""The demonstration: the bundled Sachs data as if three hospitals held a third of it each.

Every value is replaced by log(1 + x) first, as is usual for such measurements: a public transformation of each record on
its own, which needs no budget. On the raw scale the graph is further from the target. All settings are defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from privfcd.algorithms.rounds import RoundRecord
from privfcd.data.private import PrivateTable
from privfcd.data.tables import split_rows
from privfcd.datasets.sachs import Dataset, sachs
from privfcd.mechanisms import NoiseSource
from privfcd.runs import Learner, learn, private_tables

PARTIES = ("hospital-1", "hospital-2", "hospital-3")
TARGET = "cdt18"
SPLIT_SEED = 0


@dataclass(frozen=True)
class Demo:
    """What the demonstration came to."""

    model: Learner
    data: Dataset


def demo_tables(*, epsilon: float | None = 5.0, noise: NoiseSource | None = None) -> list[PrivateTable]:
    """Return the three parties' tables, each with a budget of its own; `epsilon` None makes open ones."""
    data = sachs()
    parts = split_rows(data.rows, parties=len(PARTIES), seed=SPLIT_SEED)
    import pandas as pd

    frames = [pd.DataFrame(np.log1p(part), columns=list(data.columns)) for part in parts]
    return private_tables(frames, epsilon=epsilon, private=epsilon is not None, noise=noise, names=PARTIES)


def run_demo(
    *,
    method: str = "fed-sparse",
    epsilon: float | None = 5.0,
    noise: NoiseSource | None = None,
    on_round: Callable[[RoundRecord], None] | None = None,
    tables: Sequence[PrivateTable] | None = None,
) -> Demo:
    """Learn the Sachs graph from three parties; `epsilon` None runs without privacy.

    Parameters
    ----------
    method : str
        One of `privfcd.algorithms.registry.LEARNERS`, with its defaults.
    epsilon : float, optional
        Budget of each party; delta is 1 / n².
    noise : NoiseSource, optional
        `SecureNoise()` by default.
    on_round : callable, optional
        Called after every round, by methods that have rounds.
    tables : sequence of PrivateTable, optional
        Those of `demo_tables`, made before.
    """
    made = demo_tables(epsilon=epsilon, noise=noise) if tables is None else tables
    return Demo(learn(list(made), method=method, on_round=on_round), sachs())
