"""The check of a source of noise: secure noise passes, and each fault is seen by the test that is there for it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from privfcd.audits import check_sampler
from privfcd.audits.sampler import lowest_bits
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import SecureNoise, SimulatedNoise


@dataclass(frozen=True)
class Faulty:
    """Simulated noise with one fault."""

    fault: str
    secure = False
    label = "faulty"

    def stream(self, *key: int) -> Any:
        return _FaultyStream(self.fault, key)


class _FaultyStream:
    secure = False

    def __init__(self, fault: str, key: tuple[int, ...]) -> None:
        self._fault, self._inner = fault, SimulatedNoise(8).stream(*key)

    def gaussian(self, value: Any, scale: Any) -> np.ndarray:
        noise = self._inner.gaussian(np.zeros(np.shape(value)), 1.0)
        if self._fault == "cut off":
            noise = np.clip(noise, -3.5, 3.5)
        if self._fault == "scale":
            noise = noise * 0.97
        noisy = value + scale * noise
        return np.round(noisy * 2**18) / 2**18 if self._fault == "coarse grid" else noisy

    def laplace(self, value: Any, scale: Any) -> np.ndarray:
        return self._inner.laplace(value, scale)

    def select(self, scores: np.ndarray, scale: float) -> int:
        return self._inner.select(scores, scale)

    def select_many(self, scores: np.ndarray, scale: float, size: int) -> np.ndarray:
        return self._inner.select_many(scores, scale * (0.9 if self._fault == "selection" else 1.0), size)


def test_secure_noise_passes() -> None:
    report = check_sampler(SecureNoise())
    assert report.ok
    assert report.secure
    assert "OK" in str(report)
    assert json.loads(json.dumps(report.as_dict()))["right_laws"] is True


def test_floating_point_has_the_right_laws_and_betrays_the_value() -> None:
    report = check_sampler(SimulatedNoise(5))
    assert report.right_laws
    assert not report.safe_digits
    assert not report.ok
    assert all(audit.bound > 5 for audit in report.digits)
    assert "NOT FIT" in str(report)


@pytest.mark.parametrize(
    ("fault", "seen_by"),
    [
        ("cut off", "tail beyond 3.5"),
        ("scale", "Kolmogorov-Smirnov"),
        ("coarse grid", "lattice"),
        ("selection", "softmax"),
    ],
)
def test_each_fault_of_a_law_is_seen(fault: str, seen_by: str) -> None:
    report = check_sampler(Faulty(fault), draws=200_000)
    assert any(seen_by in test.name for test in report.failures)
    assert "fails" in str(report)


def test_lowest_bits_are_those_of_the_double() -> None:
    labels = lowest_bits(np.array([1.0, 2.0, 3.0, 6.0, 0.0, -3.0, 1.5]))
    assert labels[2] == labels[5]
    assert len(set(labels.tolist())) == 6
    assert labels[0] // 8192 == labels[2] // 8192
    assert labels[1] // 8192 == labels[3] // 8192


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="draws"):
        check_sampler(SecureNoise(), draws=10)
    with pytest.raises(InvalidParameter, match="level"):
        check_sampler(SecureNoise(), level=0.0)
