"""Bytes are handed out once, in whatever way threads, forks, copies and failures come between."""

from __future__ import annotations

import copy
import os
import pickle
import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privfcd.errors import InvalidParameter
from privfcd.mechanisms import entropy as module
from privfcd.mechanisms.entropy import BLOCK, Entropy, Pool
from tests.support.helpers import seeded

WORD = 1 << 64


def scripted(*words: int) -> Entropy:
    """Give these words first, and zeros after them."""
    script = b"".join(w.to_bytes(8, "little") for w in words)

    def source(count: int) -> bytes:
        nonlocal script
        data, script = script[:count].ljust(count, b"\0"), script[count:]
        return data

    return Entropy(source)


class Counter:
    """A source whose every eight bytes are a number that never comes again."""

    def __init__(self) -> None:
        self.next = 0
        self.lock = threading.Lock()

    def __call__(self, count: int) -> bytes:
        with self.lock:
            start = self.next
            self.next += count // 8 + 1
        return np.arange(start, start + count // 8 + 1, dtype="<u8").tobytes()[:count]


def test_bytes_of_the_operating_system_are_the_default() -> None:
    assert Entropy()._source is os.urandom


def test_no_byte_is_handed_out_twice() -> None:
    entropy = Entropy(Counter())
    sizes = [*np.random.default_rng(1).integers(1, 3000, size=300).tolist(), BLOCK // 8 + 5, 1, 3 * BLOCK]
    numbers = np.concatenate([entropy.uint64(size) for size in sizes])
    assert len(np.unique(numbers)) == sum(sizes)


def test_threads_never_share_bytes() -> None:
    entropy = Entropy(Counter())
    taken: list[list[int]] = [[] for _ in range(8)]

    def work(mine: list[int]) -> None:
        for _ in range(3000):
            mine.append(entropy.word())

    threads = [threading.Thread(target=work, args=(mine,)) for mine in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [number for mine in taken for number in mine]
    assert len(set(numbers)) == len(numbers) == 24000


def test_a_draw_in_the_middle_of_a_draw_gets_bytes_of_its_own() -> None:
    """As a signal handler or a finaliser would."""
    counter = Counter()
    inner: list[int] = []
    outer: list[int] = []

    def source(count: int) -> bytes:
        if len(inner) < 5:
            inner.append(-1)
            inner[inner.index(-1)] = entropy.word()
        return counter(count)

    entropy = Entropy(source)
    for _ in range(30000):
        outer.append(entropy.word())
    assert len(set(inner + outer)) == len(inner) + len(outer)


def test_a_source_that_fails_leaves_nothing_to_use_again() -> None:
    counter = Counter()
    calls = 0

    def source(count: int) -> bytes:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError("no bytes")
        return counter(count)

    entropy = Entropy(source)
    seen = entropy.uint64(BLOCK // 8 - 1).tolist()
    with pytest.raises(OSError, match="no bytes"):
        entropy.uint64(100)
    seen += entropy.uint64(100).tolist()
    assert len(set(seen)) == len(seen)


def test_a_short_answer_is_an_error() -> None:
    with pytest.raises(OSError, match="3 bytes where"):
        Entropy(lambda count: b"abc").word()


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_is_empty_and_reads_the_operating_system(copier: Callable[[Entropy], Entropy]) -> None:
    entropy = seeded(1)
    entropy.word()
    twin = copier(entropy)
    assert twin._source is os.urandom
    assert not twin._blocks._free
    assert twin.take(32) != entropy.take(32)


def in_child(work: Callable[[], bytes]) -> bytes:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, work())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    return data


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("same_id", [False, True])
def test_a_forked_process_never_gets_the_parents_bytes(
    same_id: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if same_id:  # an id may come round again; the counter of forks does not
        monkeypatch.setattr(module.os, "getpid", lambda: 4242)
    entropy = Entropy()
    entropy.word()
    assert entropy._blocks._free
    draws = [in_child(lambda: entropy.take(64)) for _ in range(2)] + [entropy.take(64)]
    assert [len(draw) for draw in draws] == [64] * 3
    assert len(set(draws)) == 3


def test_another_process_id_alone_drops_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(object)
    pool.give_back(held := pool.lend())
    assert pool.lend() is held
    pool.give_back(held)
    monkeypatch.setattr(module.os, "getpid", lambda: -1)
    assert pool.lend() is not held


def test_an_object_is_lent_to_one_at_a_time() -> None:
    pool = Pool(object)
    first, second = pool.lend(), pool.lend()
    assert first is not second


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 1000, 2**32 + 1, 2**63 + 1, WORD - 1, WORD])
def test_every_number_below_a_bound_has_as_many_words(bound: int) -> None:
    """Lemire's method keeps the same count of words for each number: here tried at both ends of its range."""
    least = WORD % bound
    for number in {0, 1, bound // 2, bound - 1} & set(range(min(bound, 10**6))) | {bound - 1}:
        first = -(-(number * WORD + least) // bound)
        after = -(-((number + 1) * WORD) // bound)
        assert after - first == WORD // bound
        assert scripted(first).below(bound) == number
        assert scripted(after - 1).below(bound) == number
        if least:
            rejected = -(-(number * WORD) // bound)
            if rejected * bound % WORD < least:
                assert scripted(rejected, WORD - 1).below(bound) == bound - 1


@given(st.integers(1, 10**40), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_numbers_are_below_their_bound(bound: int, seed: int) -> None:
    entropy = seeded(seed)
    assert all(0 <= entropy.below(bound) < bound for _ in range(5))
    if bound <= WORD:
        many = entropy.below_many(bound, 7)
        assert many.dtype == np.uint64
        assert all(int(number) < bound for number in many)


@pytest.mark.parametrize("bound", [2, 3, 10, 97])
def test_numbers_below_a_bound_are_uniform(bound: int) -> None:
    entropy = seeded(bound)
    one = np.bincount([entropy.below(bound) for _ in range(20000)], minlength=bound)
    many = np.bincount(entropy.below_many(bound, 200000).astype(np.int64), minlength=bound)
    assert stats.chisquare(one).pvalue > 1e-7
    assert stats.chisquare(many).pvalue > 1e-7


def test_bits_have_the_number_of_bits_asked_for() -> None:
    entropy = seeded(3)
    for count in (1, 7, 8, 9, 64, 65, 200):
        numbers = [entropy.bits(count) for _ in range(200)]
        assert max(n.bit_length() for n in numbers) == count
    assert set(entropy.bits_many(1, 100).tolist()) == {0, 1}
    assert int(entropy.bits_many(64, 100).max()).bit_length() == 64


@pytest.mark.parametrize("call", [
    lambda e: e.below(0), lambda e: e.below(-3), lambda e: e.below_many(0, 5),
    lambda e: e.below_many(WORD + 1, 5), lambda e: e.bits_many(0, 5), lambda e: e.bits_many(65, 5),
])  # fmt: skip
def test_bounds_that_mean_nothing_are_refused(call: Callable[[Entropy], object]) -> None:
    with pytest.raises(InvalidParameter):
        call(seeded(1))
