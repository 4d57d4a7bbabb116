"""Audits of mechanisms: every seeded fault is caught and its right twin passes, both at alpha = 1e-6."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from privfcd.accounting import (
    BoundedRangeDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    ZCDpEvent,
    compose,
    gaussian_sigma,
)
from privfcd.audits import AuditReport, Claim, audit
from privfcd.audits.pairs import selection_pair
from privfcd.errors import InvalidParameter
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
from privfcd.reports import draw_audit

GATE = 1e-6
SIGMA = gaussian_sigma(1.0, 1e-5)
POINT = Claim(epsilon=1.0, delta=1e-5)


@dataclass(frozen=True)
class UpperTriangleOnly(AnalyticGaussian):
    """Noise above the diagonal and on it; what is below is exact."""

    def release(self, value: Any, stream: NoiseStream) -> NoisyCovariance:
        noisy = super().release(value, stream).matrix
        return NoisyCovariance(np.triu(noisy) + np.tril(value, -1), self.scale)


@dataclass(frozen=True)
class AveragedTriangle(AnalyticGaussian):
    """Noise on one triangle, and then the average with the transpose: half the noise off the diagonal."""

    def release(self, value: Any, stream: NoiseStream) -> NoisyCovariance:
        noisy = super().release(value, stream).matrix
        one = np.triu(noisy) + np.tril(value, -1)
        return NoisyCovariance((one + one.T) / 2, self.scale)


@dataclass(frozen=True)
class DoubledNoise(AnalyticGaussian):
    """Noise added and then its transpose as well: twice the noise in every entry."""

    def release(self, value: Any, stream: NoiseStream) -> NoisyCovariance:
        noise = super().release(value, stream).matrix - value
        return NoisyCovariance(value + noise + noise.T, self.scale)


@dataclass(frozen=True)
class HalfNoise(Gaussian):
    """Says one scale and uses half of it."""

    def release(self, value: Any, stream: NoiseStream) -> Any:
        return stream.gaussian(value, self.scale / 2)


@dataclass(frozen=True)
class HalfScale(GumbelMax):
    """Says one scale and uses half of it."""

    def release_many(self, scores: Any, runs: int, stream: NoiseStream) -> Any:
        return stream.select_many(np.asarray(scores), self.scale / 2, runs)


FAULTS: dict[str, tuple[Any, Claim | None, int]] = {
    "gaussian, half the noise, against a point": (Gaussian(SIGMA / 2), POINT, 10_000),
    "gaussian, half the noise, against mu": (Gaussian(0.5), Claim(mu=1.0), 3_000),
    "gaussian, half the noise, against its own event": (HalfNoise(1.0), None, 3_000),
    "gaussian, 10 releases counted as 1": (Gaussian(SIGMA / math.sqrt(10)), POINT, 3_000),
    "laplace, x 0.8": (Laplace(0.8), Claim(epsilon=1.0), 10_000),
    "laplace, x 0.8, against the curve": (Laplace(0.8), Claim(event=LaplaceDpEvent(1.0)), 10_000),
    "selection, half scale, against epsilon": (GumbelMax(1.0), Claim(epsilon=1.0), 10_000),
    "selection, half scale, against its own event": (HalfScale(2.0), None, 10_000),
    "covariance, half the noise": (AnalyticGaussian(SIGMA / 2), POINT, 10_000),
    "covariance, noise on the upper triangle": (UpperTriangleOnly(SIGMA), POINT, 3_000),
    "covariance, one triangle averaged": (AveragedTriangle(1.0), None, 30_000),
}

RIGHT: dict[str, tuple[Any, Claim | None, int]] = {
    "gaussian, against a point": (Gaussian(SIGMA), POINT, 100_000),
    "gaussian, against mu": (Gaussian(1.0), None, 100_000),
    "laplace": (Laplace(1.0), Claim(epsilon=1.0), 100_000),
    "laplace, against the curve": (Laplace(1.0), None, 100_000),
    "selection, against epsilon": (GumbelMax(2.0), Claim(epsilon=1.0), 100_000),
    "selection, against the curve": (GumbelMax(2.0), None, 100_000),
    "selection, against zCDP": (GumbelMax(2.0), Claim(event=ZCDpEvent(1 / 8)), 100_000),
    "covariance": (AnalyticGaussian(SIGMA), POINT, 20_000),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_caught(name: str) -> None:
    mechanism, claim, runs = FAULTS[name]
    for seed in range(3):
        report = audit(mechanism, claim, runs=runs, alpha=GATE, noise=SimulatedNoise(seed))
        assert report.verdict == "violated", report


@pytest.mark.parametrize("name", RIGHT)
def test_the_right_twin_passes(name: str) -> None:
    mechanism, claim, runs = RIGHT[name]
    for seed in range(3):
        report = audit(mechanism, claim, runs=runs, alpha=GATE, noise=SimulatedNoise(seed))
        assert report.verdict != "violated", report


def test_doubled_noise_is_not_a_privacy_fault_but_is_noticed() -> None:
    wrong = audit(DoubledNoise(1.0), runs=10_000, alpha=GATE)
    assert wrong.verdict != "violated" and wrong.noisier_than_claimed
    assert "more noise than is claimed" in str(wrong)
    assert not audit(AnalyticGaussian(1.0), runs=10_000, alpha=GATE).noisier_than_claimed


def test_false_alarms_are_rare_at_five_percent() -> None:
    """At most 5 % by construction; 200 audits would show 21 or more alarms with a chance below 1e-3."""
    for mechanism in (Gaussian(1.0), Laplace(1.0), GumbelMax(2.0)):
        reports = [audit(mechanism, runs=2_000, noise=SimulatedNoise(seed)) for seed in range(200)]
        assert sum(report.verdict == "violated" for report in reports) <= 20


@pytest.mark.parametrize(
    ("mechanism", "claim", "least"),
    [(Laplace(1.0), Claim(epsilon=1.0), 0.985), (Gaussian(SIGMA), POINT, 0.95), (GumbelMax(2.0), None, 0.94)],
    ids=["laplace", "gaussian", "selection"],
)
def test_a_million_runs_come_close_to_the_claim(mechanism: Any, claim: Claim | None, least: float) -> None:
    report = audit(mechanism, claim)
    assert report.verdict == "consistent"
    assert least <= report.tightness <= 1 + 1e-9
    if report.model_epsilon is not None:
        assert 0.95 <= report.model_epsilon <= 1.0


def test_an_audit_that_saw_little_is_inconclusive() -> None:
    report = audit(Laplace(100.0), runs=1_000)
    assert report.verdict == "inconclusive"
    assert "too little" in str(report)


def test_reports_repeat_with_the_seed_and_differ_without() -> None:
    first, again, other = (audit(Laplace(1.0), runs=1_000, noise=SimulatedNoise(seed)) for seed in (1, 1, 2))
    assert first == again
    assert first.bound != other.bound


def test_secure_noise_is_audited_too() -> None:
    report = audit(Laplace(0.5), Claim(epsilon=0.5), runs=2_000, noise=SecureNoise(), alpha=GATE)
    assert report.verdict == "violated"
    assert "secure" in report.noise


def test_vector_pairs() -> None:
    pair = (np.zeros(4), np.full(4, 0.5))
    right = audit(Gaussian(1.0), runs=50_000, pair=pair, alpha=GATE)
    assert right.verdict == "consistent" and right.mu_bound is not None and right.mu_bound > 0.8
    assert audit(Gaussian(0.5), Claim(mu=1.0), runs=5_000, pair=pair, alpha=GATE).verdict == "violated"
    halves = (np.zeros(2), np.array([0.5, -0.5]))
    assert audit(Laplace(1.0), Claim(epsilon=1.0), runs=50_000, pair=halves, alpha=GATE).verdict == "consistent"
    assert audit(Laplace(0.7), Claim(epsilon=1.0), runs=20_000, pair=halves, alpha=GATE).verdict == "violated"


def test_monotone_selections_cost_half() -> None:
    right = audit(GumbelMax(1.0), runs=50_000, monotone=True, alpha=GATE)
    assert right.verdict == "consistent" and right.claim.report_epsilon == pytest.approx(1.0)
    assert audit(GumbelMax(1.0), Claim(epsilon=1.0), runs=50_000, alpha=GATE).verdict == "violated"


@pytest.mark.parametrize(("scale", "monotone"), [(2.0, False), (1.0, True), (0.2, False), (30.0, False)])
def test_the_selection_pair_nearly_attains_its_range(scale: float, monotone: bool) -> None:
    first, second = selection_pair(scale, 1.0, monotone=monotone)
    assert np.abs(second - first).max() == 1.0
    assert not monotone or np.all(second >= first)
    before, after = (np.exp((s - s.max()) / scale) for s in (first, second))
    ratios = np.log(after / after.sum()) - np.log(before / before.sum())
    eta = (1 if monotone else 2) / scale
    assert np.ptp(ratios) == pytest.approx(eta)
    # with eta = 10 a million runs cannot certify e^10; where it is small the uncertainty decides
    assert 0.8 * eta < ratios.max() <= eta or eta < 0.1


def own_scales(scores: np.ndarray, runs: int, stream: NoiseStream) -> np.ndarray:
    """The largest score under Gumbel noise, each candidate with a scale for its own sensitivity."""
    scales = np.array([0.1] + [2.0] * 9)
    uniform = np.clip(1 - np.exp(-np.abs(stream.laplace(np.zeros((runs, 10)), 1.0))), 1e-300, None)
    return np.argmax(scores - scales * np.log(-np.log(uniform)), axis=1)


def test_a_scale_for_each_candidate_is_caught() -> None:
    """Sensitivities 0.05 and nine times 1, scales twice that: epsilon = 1 would be claimed, e^4.4 is lost."""
    scores = np.array([2.0] + [0.0] * 9)
    move = np.array([0.025] + [-0.5] * 9)
    pair = (scores - move, scores + move)
    report = audit(own_scales, Claim(epsilon=1.0), runs=100_000, pair=pair, batched=True, alpha=GATE)
    assert report.verdict == "violated" and report.bound > 1.5

    def one_scale(value: np.ndarray, runs: int, stream: NoiseStream) -> np.ndarray:
        return GumbelMax(2.0).release_many(value, runs, stream)

    assert audit(one_scale, Claim(epsilon=1.0), 100_000, pair=pair, batched=True, alpha=GATE).verdict != "violated"


def sparse_vector(noise_on_queries: bool, cutoff: bool) -> Callable[[list[float], NoiseStream], str]:
    """The sparse vector technique (Lyu, Su and Li 2017), right with both, broken without either; epsilon = 1."""

    def run(queries: list[float], stream: NoiseStream) -> str:
        threshold = float(stream.laplace(0.0, 2.0))
        answers = np.asarray(queries)
        if noise_on_queries:
            answers = stream.laplace(answers, 4.0 if cutoff else 2.0)
        above = answers >= threshold
        if cutoff and above.any():
            above = above[: int(np.argmax(above)) + 1]
        return "".join("T" if one else "F" for one in above)

    return run


@pytest.mark.parametrize(
    ("noise_on_queries", "cutoff", "broken", "runs"),
    [(False, False, True, 4_000), (True, False, True, 20_000), (True, True, False, 20_000)],
)
def test_sparse_vector_variants_that_print(noise_on_queries: bool, cutoff: bool, broken: bool, runs: int) -> None:
    pair = ([0.0] * 8, [1.0] * 4 + [-1.0] * 4)
    mechanism = sparse_vector(noise_on_queries, cutoff)
    report = audit(mechanism, Claim(epsilon=1.0), runs=runs, pair=pair, alpha=GATE)
    assert (report.verdict == "violated") is broken, report


def test_functions_of_ones_own_with_numbers() -> None:
    def noisy(value: float, stream: NoiseStream) -> float:
        return float(stream.laplace(value, 1.0))

    assert audit(noisy, Claim(epsilon=1.0), runs=10_000, pair=(0.0, 1.0), alpha=GATE).verdict == "consistent"
    assert audit(noisy, Claim(epsilon=0.5), runs=10_000, pair=(0.0, 1.0), alpha=GATE).verdict == "violated"

    def squared(value: float, stream: NoiseStream) -> float:
        return float(stream.gaussian(0.0, value)) ** 2  # only the spread tells; small and large outputs speak alike

    assert audit(squared, Claim(mu=0.3), runs=5_000, pair=(1.0, 2.0), alpha=GATE).verdict == "violated"

    def two_sided(value: float, stream: NoiseStream) -> float:
        return float(stream.gaussian(0.0, value))  # the likelihood ratio is not monotone in the output

    assert audit(two_sided, Claim(mu=0.3), runs=5_000, pair=(1.0, 2.0), alpha=GATE).verdict == "violated"


def test_functions_of_ones_own_with_arrays_and_mixtures() -> None:
    def vector(value: np.ndarray, stream: NoiseStream) -> np.ndarray:
        return stream.gaussian(value, 1.0)

    pair = (np.zeros((2, 3)), np.full((2, 3), 1.0))
    assert audit(vector, Claim(mu=1.0), runs=3_000, pair=pair, alpha=GATE).verdict == "violated"
    assert audit(vector, Claim(mu=math.sqrt(6)), runs=3_000, pair=pair, alpha=GATE).verdict == "consistent"

    def sometimes_none(value: float, stream: NoiseStream) -> int | None:
        return 1 if float(stream.laplace(value, 1.0)) > 0 else None

    assert audit(sometimes_none, Claim(epsilon=0.1), runs=3_000, pair=(-1.0, 1.0), alpha=GATE).verdict == "violated"


def test_a_mechanism_object_states_its_own_claim() -> None:
    class Shifted:
        def event(self, sensitivity: float) -> LaplaceDpEvent:
            return LaplaceDpEvent(1.0 / sensitivity)

        def release(self, value: float, stream: NoiseStream) -> float:
            return float(stream.laplace(value, 0.5))

    assert audit(Shifted(), runs=10_000, pair=(0.0, 1.0), alpha=GATE).verdict == "violated"


def test_a_composition_as_claim() -> None:
    """Two selections charged as one are seen in the pair of their picks; charged as two they pass."""

    def twice(value: np.ndarray, runs: int, stream: NoiseStream) -> np.ndarray:
        first, second = (stream.select_many(np.asarray(value), 1.0, runs) for _ in range(2))
        return first * 2 + second

    pair = ([0.0, 1.0], [1.0, 0.0])
    one, two = (Claim.from_event(compose([(BoundedRangeDpEvent(2.0), n)])) for n in (1, 2))
    assert audit(twice, one, runs=50_000, pair=pair, batched=True, alpha=GATE).verdict == "violated"
    assert audit(twice, two, runs=50_000, pair=pair, batched=True, alpha=GATE).verdict != "violated"


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"runs": 10}, "runs"),
        ({"runs": 1e5}, "runs"),
        ({"sensitivity": 0.0}, "sensitivity"),
        ({"sensitivity": math.nan}, "sensitivity"),
        ({"confidence": 1.0}, "confidence"),
        ({"alpha": 0.0}, "alpha"),
        ({"claim": "epsilon = 1"}, "claim"),
        ({"claim": NonPrivateDpEvent()}, "non-private"),
        ({"pair": (0.0, 2.0)}, "within the sensitivity"),
        ({"pair": (0.0, math.nan)}, "finite"),
        ({"pair": (np.zeros(2), np.zeros(3))}, "one shape"),
        ({"pair": 1.0}, "pair"),
    ],
)
def test_bad_input_is_refused(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidParameter, match=match):
        audit(Gaussian(1.0), **arguments)


def test_what_an_own_mechanism_has_to_bring() -> None:
    with pytest.raises(InvalidParameter, match="claim must be given"):
        audit(lambda value, stream: value, pair=(0.0, 1.0))
    with pytest.raises(InvalidParameter, match="pair must be given"):
        audit(lambda value, stream: value, Claim(epsilon=1.0))
    with pytest.raises(InvalidParameter, match="mechanism"):
        audit(3.0, Claim(epsilon=1.0), pair=(0.0, 1.0))
    with pytest.raises(InvalidParameter, match="one output for each"):
        audit(lambda value, runs, stream: np.zeros(3), Claim(epsilon=1.0), 100, pair=(0.0, 1.0), batched=True)
    with pytest.raises(InvalidParameter, match="non-private"):
        audit(Gaussian(0.0))


def test_report_as_json_text_and_picture(tmp_path: Any) -> None:
    report = audit(Gaussian(SIGMA / 2), POINT, runs=5_000)
    data = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert data["verdict"] == "violated" and data["claim"]["epsilon"] == 1.0
    assert data["witness"]["pair"] == [0.0, 1.0]
    assert data["mu_at_least"] > data["mu_claimed"]
    text = str(report)
    for words in ("VIOLATED", "the claim is false", "confidence", "model-based", "NO protection"):
        assert words in text
    assert "never means private" in str(audit(Laplace(1.0), runs=5_000))
    path = tmp_path / "curve.png"
    draw_audit(report, path)
    assert path.stat().st_size > 5_000
    assert isinstance(report, AuditReport)
