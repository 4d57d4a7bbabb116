"""Marks of rows: what is recognised, that honest tables are not, and that nothing keeps the rows."""

from __future__ import annotations

import gc
import itertools
import math
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privfcd as pf
from privfcd.data.trusted_sum import check_summable
from privfcd.errors import InvalidTable
from privfcd.ledger import Ledger, SameRows
from privfcd.ledger.row_fingerprints import CHANCE, _log_chances, mark_rows
from privfcd.ledger.tools import init_ledger, open_ledger
from privfcd.mechanisms import SimulatedNoise

BUDGET = pf.Budget(epsilon=1.0, delta=1e-6)
NAMES = ("a", "b", "c", "d")


def drawn(kind: str, n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if kind == "continuous":
        return rng.normal(size=(n, 4)) * [1, 1e-6, 1e6, 1]
    if kind == "whole":
        return rng.integers(0, 50, (n, 4)).astype(float)
    return rng.integers(0, 2, (n, 4)).astype(float)


def warned(rows: Any, columns: Any = None, **options: Any) -> list[str]:
    """Make a table, and return what was said of its rows."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pf.PrivateTable(rows, columns, **({"budget": BUDGET} | options))
    return [str(each.message) for each in caught if issubclass(each.category, SameRows)]


@pytest.mark.parametrize("kind", ["continuous", "whole"])
@pytest.mark.parametrize(
    "change",
    [
        lambda rows: (rows.copy(), NAMES),
        lambda rows: (rows, NAMES),
        lambda rows: (rows[::-1], NAMES),
        lambda rows: (np.asfortranarray(rows), NAMES),
        lambda rows: (rows[np.random.default_rng(0).permutation(len(rows))], NAMES),
        lambda rows: (rows[:, [2, 0, 3, 1]], ("w", "x", "y", "z")),
        lambda rows: (rows.astype(np.float32), NAMES),
        lambda rows: (rows[::-1, [3, 1]].astype(np.float32), ("d", "b")),
        lambda rows: (rows[:, [1]], ("b",)),
        lambda rows: (np.column_stack([rows, np.ones(len(rows))]), (*NAMES, "constant")),
        lambda rows: (np.column_stack([rows, np.arange(len(rows))]), (*NAMES, "place")),
        lambda rows: (pd.DataFrame(rows, columns=NAMES), None),
        lambda rows: (pd.DataFrame(rows, columns=NAMES).convert_dtypes(), None),
    ],
)
def test_the_same_rows_are_recognised_by_name(kind: str, change: Any, request: pytest.FixtureRequest) -> None:
    rows = drawn(kind, 300, abs(hash(request.node.name)) % 2**32)
    before = f"first of {request.node.name}"
    first = pf.PrivateTable(rows, NAMES, name=before, budget=BUDGET)
    again, columns = change(rows)
    said = warned(again, columns, name="second")
    assert len(said) == 1 and before in said[0] and "'second'" in said[0]
    del first
    assert len(warned(again, columns, name="third")) == 1, "a table that is gone has spent what it has spent"


@pytest.mark.parametrize("kind", ["continuous", "whole", "coins"])
@pytest.mark.parametrize("n", [5, 20, 200])
def test_tables_that_differ_are_never_taken_for_one(kind: str, n: int) -> None:
    for seed in range(50):
        rows = drawn(kind, n, 1000 + seed)
        rows[:, 3] = 1.0  # two parties may both have a constant column
        rows[:, 2] = np.arange(n)  # and number their rows alike
        if kind != "coins" or n > 5:
            assert not warned(rows, NAMES)


def test_a_part_of_the_rows_or_a_changed_value_is_another_table() -> None:
    one = drawn("continuous", 200, 1)
    pf.PrivateTable(one, NAMES, budget=BUDGET)
    other = one.copy()
    other[7, 1] += 0.5
    assert not warned(other, NAMES) and not warned(one[:150], NAMES) and not warned(one * 2, NAMES)


def test_coins_that_fall_alike_are_no_proof() -> None:
    """20 rows of 0 and 1 have the same counts by chance; 20 different rows do not."""
    coin = np.repeat([0.0, 1.0], 10)[:, None]
    one, other = (mark_rows(name, (object(), name), rows) for name, rows in (("a", coin), ("b", coin[::-1])))
    assert one.rows == other.rows and not one.same_rows(other)
    for n, same in ((16, False), (17, True)):
        rows = np.random.default_rng(n).normal(size=(n, 2))
        one, other = (mark_rows(name, (object(), name), each) for name, each in (("a", rows), ("b", rows[::-1])))
        assert one.same_rows(other) == same
    for n, same in ((7, False), (8, True)):
        rows = np.random.default_rng(n).normal(size=(n, 2))
        one, other = (mark_rows(name, (object(), name), rows.copy()) for name in "ab")
        assert one.same_rows(other) == same
    constant = np.ones((30, 3))
    one, other = (mark_rows(name, (object(), name), constant) for name in "ab")
    assert not one.same_rows(other)


@settings(max_examples=30)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 10_000))
def test_the_bound_on_chance_holds_for_every_law(counts: list[int], seed: int) -> None:
    """Against all sequences, one by one, under laws of which some are near the counts'."""
    n, k = sum(counts), len(counts)
    if k**n > 20_000:
        return
    any_order, in_order = _log_chances(np.repeat(np.arange(k, dtype=np.uint64), counts))
    rng = np.random.default_rng(seed)
    laws = [np.array(counts) / n, np.full(k, 1 / k), *rng.dirichlet(np.array(counts, dtype=float), 3)]
    for place, law in enumerate(laws):
        total = 0.0
        for sequence in itertools.product(range(k), repeat=n):
            if np.bincount(sequence, minlength=k).tolist() == counts:
                total += math.prod(law[each] for each in sequence)
        assert total <= math.exp(any_order) * (1 + 1e-9)
        assert math.prod(law**counts) <= math.exp(in_order) * (1 + 1e-9)
        assert place or total == pytest.approx(math.exp(any_order))
    assert math.exp(CHANCE) == pytest.approx(1e-6)


@pytest.mark.parametrize("fit", [
    lambda tables: pf.PC().fit(tables),
    lambda tables: pf.FedSparseBNSL(rounds=2, updates=2).fit(tables),
    lambda tables: pf.PERI().fit(tables),
    lambda tables: pf.FedBNSL(rounds=2).fit(tables),
    lambda tables: pf.release_moments(tables),
    lambda tables: pf.release_moments(tables, sum="trusted"),
    lambda tables: pf.learn(tables),
    lambda tables: check_summable(tables),
])  # fmt: skip
def test_one_run_refuses_them_before_a_charge(fit: Any) -> None:
    rows = drawn("continuous", 100, 5)
    options: dict[str, Any] = {"budget": BUDGET, "noise": SimulatedNoise(1), "bounds": 3e6}
    tables = [
        pf.PrivateTable(rows, NAMES, name="north", **options),
        pf.PrivateTable(rows + 1, NAMES, name="west", **options),
        pf.PrivateTable(rows[::-1], NAMES, name="south", **options),
    ]
    with pytest.raises(InvalidTable, match="'north' and 'south' hold the same rows"):
        fit(tables)
    assert not any(table.ledger.entries() for table in tables)


def test_files_and_arrays_in_one_call(tmp_path: Path) -> None:
    rows = drawn("continuous", 60, 6)
    for name in ("one", "two"):
        pd.DataFrame(rows, columns=NAMES).to_csv(tmp_path / f"{name}.csv", index=False)
    with pytest.warns(SameRows), pytest.raises(InvalidTable, match="'one' and 'two' hold the same rows"):
        pf.learn([tmp_path / "one.csv", tmp_path / "two.csv"], epsilon=1.0)
    with pytest.warns(SameRows), pytest.raises(InvalidTable, match="hold the same rows"):
        pf.learn([rows, rows], epsilon=1.0)
    pf.learn([rows, rows], private=False, method="pc")  # no promise is broken


def test_one_budget_for_two_tables_is_no_fault(tmp_path: Path) -> None:
    rows = drawn("continuous", 60, 7)
    init_ledger(tmp_path / "ledger.sqlite", "site", BUDGET)
    one, again = (open_ledger(tmp_path / "ledger.sqlite", "site") for _ in range(2))
    assert not warned(rows, budget=None, ledger=one) and not warned(rows, budget=None, ledger=again)
    assert len(warned(rows, name="beside")) == 1
    shared = Ledger(BUDGET, name="shared")
    other = drawn("continuous", 60, 8)
    assert not warned(other, budget=None, ledger=shared) and not warned(other, budget=None, ledger=shared)
    assert not warned(other, budget=None), "an open table promises nothing"
    assert not warned(other, noise=SimulatedNoise(1)), "nor does simulated noise"
    assert len(warned(other, name="own")) == 1


def test_rows_are_not_kept_and_marks_enter_nothing() -> None:
    rows = drawn("continuous", 100, 9)
    table = pf.PrivateTable(rows, NAMES, name="kept", budget=pf.Budget(epsilon=100.0, delta=1e-6))
    mark, array = table._mark, weakref.ref(table._rows)
    assert mark is not None
    shown = [repr(table), str(pf.release_moments([table]).privacy_report[0].as_dict()), str(table.ledger.entries())]
    secrets = [str(mark.rows), str(mark.in_order), *map(str, mark.columns)]
    assert not any(secret in text for secret in secrets for text in shown)
    del table, rows
    gc.collect()
    assert array() is None
    assert not any(isinstance(value, np.ndarray) for value in vars(mark).values())


def test_threads_find_all_pairs() -> None:
    rows = drawn("continuous", 50, 10)
    with ThreadPoolExecutor(8) as pool:
        marks = list(pool.map(lambda k: mark_rows(f"t{k}", (object(), f"t{k}"), rows), range(16)))
        from privfcd.ledger.row_fingerprints import known_before

        found = list(pool.map(lambda mark: known_before(mark, rows), marks))
    assert sum(map(len, found)) == 16 * 15 // 2
