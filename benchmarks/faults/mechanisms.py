"""Single mechanisms with too little noise, or noise of the wrong shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from benchmarks.faults.case import Case, Finding, Judge, by_audit
from privfcd.accounting import gaussian_sigma
from privfcd.audits import Claim, audit, lowest_bits
from privfcd.mechanisms import (
    AnalyticGaussian,
    Gaussian,
    GumbelMax,
    Laplace,
    NoiseStream,
    NoisyCovariance,
    SecureNoise,
    SimulatedNoise,
)

Array = NDArray[np.float64]

SIGMA = gaussian_sigma(1.0, 1e-5)
POINT = Claim(epsilon=1.0, delta=1e-5)
PURE = Claim(epsilon=1.0)


@dataclass(frozen=True)
class WeakGaussian(Gaussian):
    """Charges for one scale and draws at a smaller one."""

    factor: float = 1.0

    def release(self, value: Any, stream: NoiseStream) -> Array:
        """Return `value` with too little noise."""
        return stream.gaussian(value, self.scale / self.factor)


@dataclass(frozen=True)
class WeakLaplace(Laplace):
    """Charges for one scale and draws at a smaller one."""

    factor: float = 1.0

    def release(self, value: Any, stream: NoiseStream) -> Array:
        """Return `value` with too little noise."""
        return stream.laplace(value, self.scale / self.factor)


@dataclass(frozen=True)
class HalfScale(GumbelMax):
    """An exponential mechanism that forgets the factor 2: charges for b and selects with b / 2."""

    def release_many(self, scores: Any, runs: int, stream: NoiseStream) -> NDArray[np.int64]:
        """Return selections at half the scale."""
        return stream.select_many(np.asarray(scores, dtype=float), self.scale / 2, runs)


@dataclass(frozen=True)
class NoisyMax:
    """The largest score under Gumbel noise, with scales of its own for every candidate or one for all.

    Parameters
    ----------
    scales : tuple of float
    """

    scales: tuple[float, ...]

    def release_many(self, scores: Array, runs: int, stream: NoiseStream) -> NDArray[np.int64]:
        """Return `runs` selections."""
        laplace = stream.laplace(np.zeros((runs, len(self.scales))), 1.0)
        exponential = np.maximum(np.abs(laplace), 1e-300)  # of which -log is Gumbel noise
        return np.argmax(scores - np.array(self.scales) * np.log(exponential), axis=1)

    def release(self, scores: Array, stream: NoiseStream) -> int:
        """Return one selection."""
        return int(self.release_many(scores, 1, stream)[0])


SENSITIVITIES = np.array([0.05] + [1.0] * 9)
_SCORES = np.array([2.0] + [0.0] * 9)
_MOVE = SENSITIVITIES / 2 * np.array([1.0] + [-1.0] * 9)


@dataclass(frozen=True)
class TenTimes(Gaussian):
    """Ten releases of one value, averaged by whoever gets them: the charge is for one."""

    times: int = 10

    def release(self, value: Any, stream: NoiseStream) -> Array:
        """Return the mean of ten releases."""
        values = np.asarray(value, dtype=float)
        return np.mean([stream.gaussian(values, self.scale) for _ in range(self.times)], axis=0)

    def event(self, sensitivity: float) -> DpEvent:
        """Return the charge: for one release, or in the right twin for all of them."""
        return Gaussian(self.scale).event(sensitivity)


@dataclass(frozen=True)
class TenTimesPaid(TenTimes):
    """Ten releases with a charge for ten."""

    def event(self, sensitivity: float) -> DpEvent:
        """Return the charge."""
        return Gaussian(self.scale / self.times**0.5).event(sensitivity)


@dataclass(frozen=True)
class UpperTriangle(AnalyticGaussian):
    """Noise on the diagonal and above it; below it the matrix is exact."""

    def release(self, value: Any, stream: NoiseStream) -> NoisyCovariance:
        """Return `value` with noise on one triangle."""
        noisy = super().release(value, stream).matrix
        return NoisyCovariance(np.triu(noisy) + np.tril(value, -1), self.scale)


@dataclass(frozen=True)
class TwiceNoise(AnalyticGaussian):
    """A symmetric noise matrix plus its transpose: every entry has noise of twice the standard deviation."""

    def release(self, value: Any, stream: NoiseStream) -> NoisyCovariance:
        """Return `value` with its noise twice."""
        noise = super().release(value, stream).matrix - value
        return NoisyCovariance(value + noise + noise.T, self.scale)


def too_noisy(subject: Any, runs: int, seed: int, alpha: float) -> Finding:
    """Judge whether there is more noise than is charged: no leak, but not what the event says."""
    report = audit(subject, runs=runs, noise=SimulatedNoise(seed), alpha=alpha)
    return Finding(report.noisier_than_claimed, f"mu <= {report.mu_upper:.3g} of {report.mu_claim:.3g}")


def by_digits(kind: str, claim: Claim) -> Judge:
    """Judge a noise source by what the lowest bits of sums betray."""

    def digits(value: float, runs: int, stream: NoiseStream) -> NDArray[np.int64]:
        return lowest_bits(getattr(stream, kind)(np.full(runs, value), 1.0))

    def judge(source: Any, runs: int, seed: int, alpha: float) -> Finding:
        made = source(seed) if isinstance(source, type) and source is SimulatedNoise else source()
        report = audit(digits, claim, runs=runs, pair=(0.0, 1.0), noise=made, alpha=alpha, batched=True)
        return Finding(report.refuted, f"epsilon >= {report.bound:.3g} of {report.claim.report_epsilon:.3g}")

    return judge


CASES = [
    Case("Gaussian, scale / 2", WeakGaussian(SIGMA, 2.0), Gaussian(SIGMA), by_audit(), 2_000, 3_000),
    Case(
        "Gaussian, scale / 2, against one point", Gaussian(SIGMA / 2), Gaussian(SIGMA), by_audit(POINT), 2_000, 100_000
    ),
    Case("Gaussian, scale / 1.2", WeakGaussian(SIGMA, 1.2), Gaussian(SIGMA), by_audit(), 50_000),
    Case("Gaussian, scale x 0.9", WeakGaussian(SIGMA, 1 / 0.9), Gaussian(SIGMA), by_audit(), 180_000, 300_000),
    Case("Gaussian, scale / 1.05", WeakGaussian(SIGMA, 1.05), Gaussian(SIGMA), by_audit(), 800_000),
    Case("Laplace, scale x 0.8", WeakLaplace(1.0, 1.25), Laplace(1.0), by_audit(PURE), 3_000, 3_000),
    Case("Laplace, scale / 1.2", WeakLaplace(1.0, 1.2), Laplace(1.0), by_audit(PURE), 5_000),
    Case("Laplace, scale x 0.95", WeakLaplace(1.0, 1 / 0.95), Laplace(1.0), by_audit(PURE), 60_000, 100_000),
    Case("exponential mechanism, half scale", HalfScale(2.0), GumbelMax(2.0), by_audit(), 2_000, 10_000),
    Case(
        "a Gumbel scale for each candidate",
        NoisyMax(tuple(2 * SENSITIVITIES)),
        NoisyMax((2.0,) * 10),
        by_audit(PURE, (_SCORES - _MOVE, _SCORES + _MOVE)),
        10_000,
        30_000,
    ),
    Case("10 releases counted as 1", TenTimes(SIGMA), TenTimesPaid(SIGMA), by_audit(), 700, 1_000),
    Case("covariance, noise on one triangle", UpperTriangle(SIGMA), AnalyticGaussian(SIGMA), by_audit(), 300),
    Case("covariance, symmetric noise twice", TwiceNoise(SIGMA), AnalyticGaussian(SIGMA), too_noisy, 10_000),
    Case("Laplace in plain floating point", SimulatedNoise, SecureNoise, by_digits("laplace", PURE), 1_000),
    Case("Gaussian in plain floating point", SimulatedNoise, SecureNoise, by_digits("gaussian", Claim(mu=1.0)), 2_000),
]
