"""The smallest scale that meets a target: near the smallest whatever the cost is like, and in few evaluations."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.accounting import calibration, compose, gaussian_event, selection_event, tight
from privfcd.accounting.roots import falling_root

POSITIVE = st.floats(1e-3, 1e3)


@given(
    power=st.floats(0.3, 4),
    bend=st.floats(0, 2),
    jumps=st.lists(st.tuples(st.floats(0.1, 10), st.floats(1.0000001, 3)), max_size=3),
    flat=st.none() | st.tuples(st.floats(0.1, 10), st.floats(1, 2)),
    target=POSITIVE,
    start=POSITIVE,
    guess=st.floats(0.1, 5),
    tolerance=st.sampled_from([1e-3, 1e-9, 1e-12]),
)
@settings(max_examples=150)
def test_no_smaller_scale_would_do(
    power: float,
    bend: float,
    jumps: list[tuple[float, float]],
    flat: tuple[float, float] | None,
    target: float,
    start: float,
    guess: float,
    tolerance: float,
) -> None:
    asked: list[float] = []

    def cost(scale: float) -> float:
        if flat is not None and flat[0] < scale < flat[0] * flat[1]:
            scale = flat[0] * flat[1]
        value = scale**-power * (1 + bend / (1 + scale))
        return value * math.prod(factor for place, factor in jumps if scale < place)

    def counted(scale: float) -> float:
        asked.append(scale)
        return cost(scale)

    found = falling_root(counted, target, start, tolerance=tolerance, power=guess)
    assert found in asked and cost(found) <= target < cost(found * (1 - 2 * tolerance))
    assert len(asked) <= 90


def test_a_plan_is_priced_four_times(monkeypatch: pytest.MonkeyPatch) -> None:
    priced: list[float] = []
    plain = tight.TightAccountant.get_epsilon

    def counted(self: tight.TightAccountant, delta: float) -> float:
        priced.append(plain(self, delta))
        return priced[-1]

    monkeypatch.setattr(tight.TightAccountant, "get_epsilon", counted)
    for pairs, epsilon in ((6, 9.0), (20, 1.0), (2000, 5.0)):
        priced.clear()
        calibration.smallest_scale(
            lambda z, pairs=pairs: compose([(selection_event(1.0, z), pairs), (gaussian_event(1.0, z), pairs)]),
            epsilon,
            1e-6,
        )
        assert len(priced) <= 4 and epsilon * (1 - 2e-9) < priced[-1] <= epsilon
