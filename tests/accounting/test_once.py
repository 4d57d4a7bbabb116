"""Results that are kept: computed once by any number of threads, anew in a child process, and again after an error."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import privfcd as pf
from privfcd.accounting import tight
from privfcd.accounting.once import computed_once


def test_threads_that_ask_at_the_same_time_wait_for_one_of_them() -> None:
    asked: list[int] = []
    together = threading.Barrier(4)
    begun = threading.Event()

    @computed_once(maxsize=2)
    def double(number: int) -> int:
        """Twice the number."""
        asked.append(number)
        begun.wait(30)
        return 2 * number

    def ask() -> int:
        together.wait(30)
        return double(3)

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(ask) for _ in range(3)]
        together.wait(30)
        begun.set()
        assert [future.result(30) for future in waiting] == [6, 6, 6]
    assert asked == [3] and double.__doc__ == "Twice the number."
    assert [double(4), double(3), double(5), double(3), double(4)] == [8, 6, 10, 6, 8]
    assert asked == [3, 4, 5, 4]  # the last two are kept


def test_errors_are_not_kept() -> None:
    asked: list[int] = []

    @computed_once(maxsize=8)
    def refused(number: int) -> int:
        asked.append(number)
        if len(asked) == 1:
            raise ValueError(number)
        return number

    with pytest.raises(ValueError, match="7"):
        refused(7)
    assert refused(7) == refused(7) == 7 and asked == [7, 7]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_child_does_not_wait_for_a_thread_that_it_does_not_have() -> None:
    begun, forked = threading.Event(), threading.Event()
    parent = os.getpid()

    @computed_once(maxsize=8)
    def slow(number: int) -> int:
        if os.getpid() == parent:
            begun.set()
            forked.wait(30)
        return number

    thread = threading.Thread(target=slow, args=(1,))
    thread.start()
    assert begun.wait(30)
    child = os.fork()
    if child == 0:
        os._exit(slow(1) if threading.active_count() == 1 else 2)
    forked.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_parties_in_threads_price_a_plan_once(monkeypatch: pytest.MonkeyPatch) -> None:
    priced: list[tuple[object, ...]] = []

    @computed_once(maxsize=256)
    def counted(*arguments: object) -> tuple[float, str]:
        priced.append(arguments)
        return inner(*arguments)

    inner = tight._epsilon_by.__wrapped__  # type: ignore[attr-defined]
    monkeypatch.setattr(tight, "_epsilon_by", counted)
    parts = pf.simulate.linear_gaussian(d=3, parties=4, rows=100, seed=1).tables
    tables = [
        pf.PrivateTable(
            part, name=f"p{k}", bounds=9.0, budget=pf.Budget(epsilon=7, delta=1e-6), noise=pf.SimulatedNoise(1)
        )
        for k, part in enumerate(parts)
    ]
    pf.FedSparseBNSL(rounds=4, updates=3, workers=4).fit(tables)
    assert priced and len(priced) == len(set(priced))
