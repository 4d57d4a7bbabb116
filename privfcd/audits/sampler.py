"""Is a source of noise what it says: tests of its laws, and of what the digits of its sums betray.

Laws. For Gaussian and Laplace noise: Kolmogorov-Smirnov; chi-square on lattice points (the position of the output in a
lattice of 2^-20 scales, modulo 256, which is uniform for every exact sum); and exact binomial tests of each tail beyond
several thresholds, which alone see noise that is cut off. For selections: chi-square of the picks against the softmax of
the scores. All are run at a family-wise level, so that a right source fails a whole report with that probability only.

Reachability (Mironov 2012, "On significance of the least significant bits for differential privacy"). Noise in floating
point that is added to a value leaves traces in the low digits of the sum: near 0 a sum with value 1 is a multiple of
2^-53 always, a sum with value 0 hardly ever. The audit runs both values with noise of scale 1 and looks at nothing but
the lowest set bit and the magnitude of the output; the privacy loss that it certifies is held against what the noise
allows. The exact laws allow epsilon = 1 (Laplace) and mu = 1 (Gaussian) there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from privfcd import checks
from privfcd.audits.claims import Claim
from privfcd.audits.mechanisms import audit
from privfcd.audits.report import AuditReport
from privfcd.mechanisms import NoiseSource, NoiseStream

Array = NDArray[np.float64]

_TAILS = (1.0, 2.0, 3.0, 3.5, 4.0, 4.5)
_LATTICE = 2.0**20
_CLASSES = 256
_VALUE, _SCALE = 0.7, 1.7
_SCORES = (0.0, -0.3, -1.0, -2.0, -4.0, -8.0)


@dataclass(frozen=True)
class SamplerTest:
    """One test of a law: what it looked at, and the probability of a right source to look as bad."""

    name: str
    p_value: float


@dataclass(frozen=True)
class SamplerReport:
    """What the tests of a source of noise found.

    Attributes
    ----------
    noise : str
        The source's own label.
    secure : bool
        What the source says of itself.
    draws : int
        Numbers of each law, and selections.
    level : float
        Family-wise: the probability with which a right source fails any test of laws, or any reachability audit.
    laws : tuple of SamplerTest
    digits : tuple of AuditReport
        Reachability through the low digits: Gaussian and Laplace.
    seconds : float
    """

    noise: str
    secure: bool
    draws: int
    level: float
    laws: tuple[SamplerTest, ...]
    digits: tuple[AuditReport, ...] = field(repr=False)
    seconds: float = field(compare=False)

    @property
    def failures(self) -> tuple[SamplerTest, ...]:
        """The tests of laws that fail at the family-wise level (Bonferroni)."""
        return tuple(test for test in self.laws if test.p_value < self.level / (2 * len(self.laws)))

    @property
    def right_laws(self) -> bool:
        """Whether no test of a law fails."""
        return not self.failures

    @property
    def safe_digits(self) -> bool:
        """Whether the low digits betray no more than the noise allows."""
        return not any(report.refuted for report in self.digits)

    @property
    def ok(self) -> bool:
        """Whether laws and digits are as they must be for a release."""
        return self.right_laws and self.safe_digits

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-able values."""
        return {
            "noise": self.noise,
            "secure": self.secure,
            "draws": self.draws,
            "level": self.level,
            "right_laws": self.right_laws,
            "safe_digits": self.safe_digits,
            "laws": {test.name: test.p_value for test in self.laws},
            "digits": [report.as_dict() for report in self.digits],
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        worst = min(self.laws, key=lambda test: test.p_value)
        lines = [
            f"Sampler check of {self.noise}: {'OK' if self.ok else 'NOT FIT FOR A RELEASE'}",
            f"  laws        {len(self.laws)} tests on {self.draws:,} draws each, family-wise level {self.level:g}: "
            f"{len(self.failures)} fail; smallest p {worst.p_value:.3g} ({worst.name})",
        ]
        lines += [f"  fails       {test.name}: p = {test.p_value:.3g}" for test in self.failures]
        lines += [
            f"  digits      {report.subject}: epsilon >= {report.bound:.4g} from the lowest bits alone, "
            f"{report.claim.report_epsilon:.4g} allowed: {report.verdict.upper() if report.refuted else 'nothing found'}"
            for report in self.digits
        ]
        return "\n".join([*lines, f"  seconds     {self.seconds:.2f}"])


def check_sampler(noise: NoiseSource, *, draws: int = 10**5, level: float = 1e-6) -> SamplerReport:
    """Test a source of noise: its laws, and what the low digits of its sums betray.

    Parameters
    ----------
    noise : NoiseSource
        Such as `SecureNoise()`; `SimulatedNoise` has the right laws and fails the audit of the digits.
    draws : int
        Numbers drawn of each law, and selections; at least 10,000.
    level : float
        Family-wise probability of an alarm about a right source, in (0, 1).

    Returns
    -------
    SamplerReport
        Prints; `ok`, `right_laws`, `safe_digits`.

    Raises
    ------
    InvalidParameter
        `noise` is no source of noise, or a number is outside what is accepted.
    """
    began = time.perf_counter()
    draws = checks.count("draws", draws, least=10_000)
    level = checks.fraction("level", level)
    if not callable(getattr(noise, "stream", None)):
        raise checks.refuse("noise", noise, "a source of noise, such as SecureNoise() or SimulatedNoise(1)")
    stream = noise.stream(0)
    laws = [
        *_law_tests("gaussian", stream.gaussian(np.full(draws, _VALUE), _SCALE), stats.norm),
        *_law_tests("laplace", stream.laplace(np.full(draws, _VALUE), _SCALE), stats.laplace),
        _selection_test(stream, draws),
    ]
    share = level / 4  # half of the level for the laws, a quarter for each of the two audits
    digits = (
        audit(_gaussian_digits, Claim(mu=1.0), draws, pair=(0.0, 1.0), noise=noise, alpha=share, batched=True),
        audit(_laplace_digits, Claim(epsilon=1.0), draws, pair=(0.0, 1.0), noise=noise, alpha=share, batched=True),
    )
    return SamplerReport(noise.label, noise.secure, draws, level, tuple(laws), digits, time.perf_counter() - began)


def lowest_bits(outputs: Array) -> NDArray[np.int64]:
    """Return one label for the lowest set bit and the magnitude of each double: all that the digits' audit sees.

    Parameters
    ----------
    outputs : ndarray of float
        Released values.
    """
    mantissa, exponent = np.frexp(outputs)
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = np.frexp((whole & -whole).astype(np.float64))[1] + exponent
    return np.where(outputs == 0, 0, (lowest.astype(np.int64) + 4096) * 8192 + exponent + 4096)


def _law_tests(kind: str, outputs: Array, law: Any) -> list[SamplerTest]:
    noise = (np.asarray(outputs) - _VALUE) / _SCALE
    draws = len(noise)
    tests = [SamplerTest(f"{kind}: Kolmogorov-Smirnov", float(stats.kstest(noise, law.cdf).pvalue))]
    places = np.floor(np.asarray(outputs) * _LATTICE).astype(np.int64) % _CLASSES
    counts = np.bincount(places, minlength=_CLASSES)
    tests.append(SamplerTest(f"{kind}: chi-square on lattice points", float(stats.chisquare(counts).pvalue)))
    for threshold in _TAILS:
        for side, beyond in (("upper", noise > threshold), ("lower", noise < -threshold)):
            found = stats.binomtest(int(np.count_nonzero(beyond)), draws, float(law.sf(threshold)))
            tests.append(SamplerTest(f"{kind}: {side} tail beyond {threshold:g}", float(found.pvalue)))
    return tests


def _selection_test(stream: NoiseStream, draws: int) -> SamplerTest:
    scores = np.array(_SCORES)
    weights = np.exp(scores)
    counts = np.bincount(stream.select_many(scores, 1.0, draws), minlength=len(scores))
    found = stats.chisquare(counts, weights / weights.sum() * draws)
    return SamplerTest("selection: chi-square against the softmax", float(found.pvalue))


def _gaussian_digits(value: float, runs: int, stream: NoiseStream) -> NDArray[np.int64]:
    return lowest_bits(stream.gaussian(np.full(runs, value), 1.0))


def _laplace_digits(value: float, runs: int, stream: NoiseStream) -> NDArray[np.int64]:
    return lowest_bits(stream.laplace(np.full(runs, value), 1.0))


_gaussian_digits.__name__ = "the digits of Gaussian sums"
_laplace_digits.__name__ = "the digits of Laplace sums"
