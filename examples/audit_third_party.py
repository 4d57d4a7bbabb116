"""Audit other libraries' noise: OpenDP's and diffprivlib's Laplace and Gaussian mechanisms.

    pip install 'privfcd[examples]'
    python examples/audit_third_party.py [RUNS]

Each mechanism is a function of a table and a seed that answers with a noisy sum; two tables that differ in one record are
told apart from its answers, and what is found is held against what the library claims. Then the same answers are looked at
through a keyhole: only the lowest set bit and the magnitude of each double. What these betray beyond the claim is a fault
of the floating-point arithmetic. A library that is not installed is left out, and the reason is printed.

To audit code of your own, write such a function and say what it claims.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from privfcd.audits import AuditReport, Claim, audit_function
from privfcd.audits.sampler import lowest_bits

TABLE = np.zeros(100)
NEIGHBOUR = np.append(np.zeros(99), 1.0)  # one record is 1 instead of 0: the sum's sensitivity
EPSILON, DELTA = 1.0, 1e-5
CONFIDENCE = 0.999  # of each of ten audits: an alarm about right code in about one in a hundred of these tables


@dataclass(frozen=True)
class Subject:
    """A mechanism and its claim."""

    name: str
    function: Callable[[Any, Any], Any]
    claim: Claim
    vectorised: bool


def opendp_subjects() -> Iterator[Subject]:
    """Yield OpenDP's mechanisms, which claim what their own privacy maps say; they take no seed."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    laplace = dp.m.make_laplace(domain, dp.l1_distance(T=float), scale=1 / EPSILON)
    gaussian = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=3.7307)

    def many(mechanism: Any) -> Callable[[Any, Any], Any]:
        # One release of a vector that repeats the sum is as many releases of the sum: its entries have independent noise.
        return lambda table, seeds: np.array(mechanism([float(table.sum())] * len(seeds)))

    yield Subject("OpenDP make_laplace", many(laplace), Claim(epsilon=laplace.map(1.0)), True)
    rho = gaussian.map(1.0)
    yield Subject("OpenDP make_gaussian", many(gaussian), Claim(mu=float(np.sqrt(2 * rho)), delta=DELTA), True)


def diffprivlib_subjects() -> Iterator[Subject]:
    """Yield diffprivlib's mechanisms; where (epsilon, delta) is claimed of Gaussian noise, its whole curve is."""
    from diffprivlib.mechanisms import GaussianAnalytic, Laplace

    def laplace(table: Any, seed: int) -> float:
        return float(Laplace(epsilon=EPSILON, sensitivity=1.0, random_state=seed).randomise(float(table.sum())))

    def gaussian(table: Any, seed: int) -> float:
        mechanism = GaussianAnalytic(epsilon=EPSILON, delta=DELTA, sensitivity=1.0, random_state=seed)
        return float(mechanism.randomise(float(table.sum())))

    yield Subject("diffprivlib Laplace", laplace, Claim(epsilon=EPSILON), False)
    yield Subject("diffprivlib GaussianAnalytic", gaussian, Claim(EPSILON, DELTA).as_gaussian(), False)


def numpy_subjects() -> Iterator[Subject]:
    """Yield what many write themselves, for comparison."""

    def laplace(table: Any, seed: int) -> float:
        return float(table.sum() + np.random.default_rng(seed).laplace(0.0, 1 / EPSILON))

    yield Subject("NumPy Laplace", laplace, Claim(epsilon=EPSILON), False)


def digits_of(output: Any) -> float:
    """Return what is seen through the keyhole."""
    return float(lowest_bits(np.array([output], dtype=np.float64))[0])


def audits(subject: Subject, runs: int) -> tuple[AuditReport, AuditReport]:
    """Return the audit of the answers, and of their low digits."""
    whole, digits = (
        audit_function(
            subject.function,
            TABLE,
            NEIGHBOUR,
            subject.claim,
            runs,
            statistic=statistic,
            vectorised=subject.vectorised,
            confidence=CONFIDENCE,
        )
        for statistic in (None, digits_of)
    )
    return whole, digits


def main(runs: int = 10_000) -> int:
    """Print a line for each mechanism; return how many claims were refuted."""
    refuted = 0
    print(f"{'mechanism':30} {'claimed':>8} {'found':>8}  {'verdict':13} {'low digits':>10}  verdict")
    for library, subjects in (("OpenDP", opendp_subjects), ("diffprivlib", diffprivlib_subjects), ("", numpy_subjects)):
        try:
            found = list(subjects())
        except ImportError as error:
            print(f"{library}: left out, it cannot be imported ({error}); pip install 'privfcd[examples]'")
            continue
        for subject in found:
            whole, digits = audits(subject, runs)
            claimed = subject.claim.report_epsilon
            bound = max(whole.bound, whole.model_epsilon or 0.0)
            print(
                f"{subject.name:30} {claimed:8.3f} {bound:8.3f}  {whole.verdict:13} {digits.bound:10.3f}  {digits.verdict}"
            )
            refuted += whole.refuted + digits.refuted
    return refuted


if __name__ == "__main__":
    print(f"claims refuted: {main(*(int(word) for word in sys.argv[1:2]))}")
