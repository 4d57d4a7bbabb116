"""A plan of one noise for the sum of all tables knows its bytes and time, as any other does."""

from __future__ import annotations

import numpy as np

import privfcd as pf


def test_bytes_and_time_of_a_trusted_sum_are_known() -> None:
    rng = np.random.default_rng(0)
    tables = [pf.PrivateTable(rng.normal(size=(2000, 4)), name=f"p{k}", budget=pf.Budget(5, 1e-6)) for k in range(3)]
    plan = pf.plan_run(pf.FedACD(sum="trusted"), tables)
    assert plan.bytes is not None and plan.seconds is not None
