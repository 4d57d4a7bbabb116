"""Replayed transcripts: the log-likelihood ratio of each law, and what cannot be a replay."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privfcd.audits.transcripts import CERTAIN, Diverged, Recorder, Replay, fingerprint, permute_and_flip_law
from privfcd.mechanisms import SimulatedNoise

numbers = st.floats(-5, 5).map(lambda x: round(x, 3))
scales = st.floats(0.1, 5).map(lambda x: round(x, 3))


def ratio(kind: str, first: Any, second: Any, scale: Any, other: Any = None, size: int | None = None) -> tuple:
    """Draw on the first value, replay on the second; return the score and the answer."""
    recorder = Recorder(SimulatedNoise(3))
    replay = Replay(recorder)
    more = () if size is None else (size,)
    answer = getattr(recorder.stream(1, 2), kind)(first, scale, *more)
    replay.load(recorder.steps)
    again = getattr(replay.stream(1, 2), kind)(second, scale if other is None else other, *more)
    assert np.array_equal(answer, again) and replay.finished
    return replay.log_ratio, answer


@pytest.mark.parametrize(("kind", "law"), [("gaussian", stats.norm), ("laplace", stats.laplace)])
@given(first=numbers, second=numbers, scale=scales, other=scales)
def test_additive_noise(kind: str, law: Any, first: float, second: float, scale: float, other: float) -> None:
    found, answer = ratio(kind, first, second, scale)
    expected = law.logpdf(answer, second, scale) - law.logpdf(answer, first, scale)
    assert found == pytest.approx(expected, abs=1e-9)
    found, answer = ratio(kind, first, second, scale, other)
    expected = law.logpdf(answer, second, other) - law.logpdf(answer, first, scale)
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("kind", "law"), [("gaussian", stats.norm), ("laplace", stats.laplace)])
def test_additive_noise_on_arrays_with_a_scale_for_each_entry(kind: str, law: Any) -> None:
    first, second = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
    scale = np.array([[1.0, 2.0, 3.0], [0.5, 1.5, 2.5]])
    found, answer = ratio(kind, first, second, scale)
    assert found == pytest.approx(float(np.sum(law.logpdf(answer, second, scale) - law.logpdf(answer, first, scale))))


@given(first=st.lists(numbers, min_size=2, max_size=6), shift=st.lists(numbers, min_size=6, max_size=6), scale=scales)
def test_selections(first: list[float], shift: list[float], scale: float) -> None:
    one = np.array(first)
    two = one + np.array(shift[: len(first)])
    found, pick = ratio("select", one, two, scale)
    laws = [np.exp(s / scale) / np.exp(s / scale).sum() for s in (two, one)]
    assert found == pytest.approx(math.log(laws[0][pick] / laws[1][pick]), abs=1e-9)
    found, picks = ratio("select_many", one, two, scale, size=4)
    assert found == pytest.approx(float(np.sum(np.log(laws[0][picks] / laws[1][picks]))), abs=1e-9)
    found, pick = ratio("permute_and_flip", one, two, scale)
    flips = [permute_and_flip_law(s, scale) for s in (two, one)]
    assert found == pytest.approx(math.log(flips[0][pick] / flips[1][pick]))


@given(scores=st.lists(numbers, min_size=1, max_size=6), scale=scales)
def test_the_law_of_permute_and_flip_is_that_of_its_definition(scores: list[float], scale: float) -> None:
    heads = np.exp((np.array(scores) - max(scores)) / scale)
    law = np.zeros(len(scores))
    for shown in itertools.product([False, True], repeat=len(scores)):
        chance = np.prod(np.where(shown, heads, 1 - heads))
        if any(shown):
            law += chance * np.array(shown) / sum(shown)
    assert permute_and_flip_law(np.array(scores), scale) == pytest.approx(law, abs=1e-12)


def test_exact_answers_are_certain_evidence() -> None:
    assert ratio("gaussian", 1.0, 1.0, 0.0)[0] == 0.0
    assert ratio("gaussian", 1.0, 1.5, 0.0)[0] == -CERTAIN
    assert ratio("select", np.array([0.0, 1.0]), np.array([0.5, 1.0]), 0.0)[0] == 0.0
    assert ratio("select", np.array([0.0, 1.0]), np.array([2.0, 1.0]), 0.0)[0] == -CERTAIN


def test_another_course_of_events_is_noticed() -> None:
    recorder = Recorder(SimulatedNoise(0))
    recorder.stream(1).gaussian(np.zeros(2), 1.0)
    replay = Replay(recorder)
    for ask in (
        lambda: replay.stream(1).laplace(np.zeros(2), 1.0),
        lambda: replay.stream(2).gaussian(np.zeros(2), 1.0),
        lambda: replay.stream(1).gaussian(np.zeros(3), 1.0),
    ):
        replay.load(recorder.steps)
        with pytest.raises(Diverged):
            ask()
    replay.load(recorder.steps)
    assert not replay.finished
    replay.stream(1).gaussian(np.zeros(2), 1.0)
    with pytest.raises(Diverged):
        replay.stream(1).gaussian(np.zeros(2), 1.0)


def test_recorded_values_do_not_change_with_the_working_state() -> None:
    recorder = Recorder(SimulatedNoise(0))
    scores = np.array([0.0, 1.0])
    recorder.stream(0).select(scores, 1.0)
    scores[:] = 9.0
    assert recorder.steps[0].value.tolist() == [0.0, 1.0]


def test_fingerprints_see_every_bit_and_no_more() -> None:
    one, other = {"a": [np.arange(3.0), 2]}, {"a": [np.arange(3.0), 2]}
    assert fingerprint(one) == fingerprint(other)
    other["a"][0][1] = math.nextafter(1.0, 2.0)
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint([1, [2]]) != fingerprint([[1], 2])
