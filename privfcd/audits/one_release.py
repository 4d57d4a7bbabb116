"""One run with many canaries, for releases of second moments.

Each of m rows is one of two orthogonal records, as a fair coin says. The auditor knows the records, not the coins, and
sees one noisy matrix: a sum over canaries of coin times known matrix, and noise of known law. The guess is the best
linear one (ridge regression with the noise's variance), which keeps canaries apart that overlap.

A release of d (d + 1) / 2 numbers carries many canaries; a descent, whose coordinates share the budget, hardly any (the
bound would be 0 at epsilon = 50): use `audit_algorithm` there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from privfcd import checks
from privfcd.audits.algorithm import accountants_epsilons, gaussian_mu
from privfcd.audits.canaries import SIZE, Template
from privfcd.audits.claims import Claim
from privfcd.audits.one_run import GUESSES, OneRunBound, one_run_bound
from privfcd.audits.report import TIGHT_ENOUGH, Verdict, jsonable
from privfcd.audits.subjects import charged, table_of
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import NoiseSource, SimulatedNoise

Array = NDArray[np.float64]


@dataclass(frozen=True)
class OneRunReport:
    """What one run with many canaries found.

    Attributes
    ----------
    subject : str
    claim : Claim
    found : OneRunBound
    mu_claim : float or None
        mu of what was charged, where that is all Gaussian noise or selections.
    accountants : dict of str to float
        Epsilon at the bound's delta of what was charged.
    refuted : bool
    seconds : float
    noise : str
    """

    subject: str
    claim: Claim
    found: OneRunBound
    mu_claim: float | None
    accountants: dict[str, float]
    refuted: bool
    seconds: float = field(compare=False)
    noise: str

    @property
    def tightness(self) -> float:
        """The share of the claimed epsilon that was found."""
        claimed = self.claim.epsilon_at(self.found.delta)
        return self.found.epsilon / claimed if claimed > 0 else float("inf")

    @property
    def verdict(self) -> Verdict:
        """`"violated"`, `"consistent"` or `"inconclusive"`."""
        if self.refuted:
            return "violated"
        return "consistent" if self.tightness >= TIGHT_ENOUGH else "inconclusive"

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-able values."""
        found = self.found
        return {
            "subject": self.subject,
            "verdict": self.verdict,
            "claim": self.claim.as_dict(),
            "epsilon_at_least": jsonable(found.epsilon),
            "delta": found.delta,
            "mu_at_least": jsonable(found.mu),
            "mu_claimed": jsonable(self.mu_claim),
            "canaries": found.canaries,
            "guesses": found.guesses,
            "correct": found.correct,
            "confidence": found.confidence,
            "tightness": jsonable(self.tightness),
            "accountants": {name: jsonable(value) for name, value in self.accountants.items()},
            "seconds": self.seconds,
            "noise": self.noise,
        }

    def __str__(self) -> str:
        found = self.found
        stated = ", ".join(f"{name} {value:.4g}" for name, value in self.accountants.items())
        return "\n".join(
            [
                f"Audit of {self.subject} in one run: {self.verdict.upper()}",
                f"  claimed     {self.claim}",
                f"  found       epsilon >= {found.epsilon:.4g} at delta = {found.delta:.3g}, {self.tightness:.0%} of it",
                f"              mu >= {found.mu:.4g}" + (f" of {self.mu_claim:.4g}" if self.mu_claim else ""),
                f"  accountants epsilon of what was charged: {stated}",
                f"  guesses     {found.correct:,} of {found.guesses:,} right, {found.canaries:,} canaries",
                f"  confidence  {found.confidence:.6g}, for all of these together",
                f"  noise       {self.noise}",
                f"  seconds     {self.seconds:.2f}",
            ]
        )


def audit_one_run(
    subject: Callable[[list[PrivateTable]], Any],
    table: PrivateTable,
    *,
    canaries: int | None = None,
    row_norm: float | None = None,
    claim: Claim | DpEvent | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    noise: NoiseSource | None = None,
    seed: int = 0,
) -> OneRunReport:
    """Audit a release of second moments by one run with many canaries.

    Parameters
    ----------
    subject : function of a list with one table
        Returns something with `matrix` and `noise_sd`, such as Moments: `lambda tables: table_moments(tables[0], ...)`.
    table : PrivateTable
        A private table, of which only the public side is used; neighbours differ in a replaced record.
    canaries : int, optional
        At most the table's rows; by default that, or half of the matrix's free entries where that is less.
    row_norm : float, optional
        Length of the records; by default the norm of the declared bounds.
    claim, delta, confidence, noise, seed
        As for `audit_algorithm`.

    Returns
    -------
    OneRunReport
        Lower bounds beside the claim.

    Raises
    ------
    InvalidParameter
        A parameter is outside what is accepted, or the subject releases no moments.
    """
    began = time.perf_counter()
    template = Template.of(table)
    d = len(template.columns)
    most = template.rows
    m = min(most, d * (d + 1) // 4) if canaries is None else checks.count("canaries", canaries)
    if m > most:
        raise checks.refuse("canaries", canaries, f"at most the number of rows, {most}")
    rng = np.random.default_rng(checks.count("seed", seed, least=0))
    bounds = np.full(d, SIZE) if template.bounds is None else np.array(template.bounds)
    length = float(np.linalg.norm(bounds)) if row_norm is None else checks.positive("row_norm", row_norm)
    pairs = _orthogonal_pairs(m, d, length, rng)
    coins = rng.integers(0, 2, m)
    rows = np.zeros((template.rows, d))
    rows[:m] = pairs[coins, np.arange(m)]
    source: NoiseSource = SimulatedNoise(seed) if noise is None else noise
    fresh = table_of(template, rows, source)
    released = subject([fresh])
    event = charged(fresh)
    matrix, noise_sd = getattr(released, "matrix", None), getattr(released, "noise_sd", None)
    if matrix is None or noise_sd is None:
        raise InvalidParameter(f"subject must release moments with matrix and noise_sd, got {type(released).__name__}")
    scores = _guesses(np.asarray(matrix), np.asarray(noise_sd), pairs, template.rows)
    stated = claim if isinstance(claim, Claim) else Claim.from_event(event if claim is None else claim)
    budget = template.budget
    at = delta if delta is not None else (budget.delta if budget is not None and budget.delta else 1e-6)
    found = one_run_bound(scores, coins, at, confidence, GUESSES)
    refuted = found.epsilon > stated.epsilon_at(at) or (stated.mu is not None and found.mu > stated.mu)
    return OneRunReport(
        subject=getattr(subject, "__name__", repr(subject)),
        claim=stated,
        found=found,
        mu_claim=gaussian_mu(event),
        accountants=accountants_epsilons(event, at),
        refuted=bool(refuted),
        seconds=time.perf_counter() - began,
        noise=source.label,
    )


def _orthogonal_pairs(m: int, d: int, length: float, rng: np.random.Generator) -> Array:
    """Return two orthogonal records of one length for each canary, shape (2, m, d), in random directions."""
    first, second = rng.normal(size=(2, m, d))
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    second -= np.sum(first * second, axis=1, keepdims=True) * first
    second /= np.linalg.norm(second, axis=1, keepdims=True)
    return np.stack([first, second]) * length


def _guesses(matrix: Array, noise_sd: Array, pairs: Array, n: int) -> Array:
    """Return the best linear guess of each coin, from -1 (record 0) to 1 (record 1)."""
    rows, columns = np.triu_indices(len(matrix))
    scale = noise_sd[rows, columns]
    products = pairs[:, :, rows] * pairs[:, :, columns] / n
    middle, gap = (products[1] + products[0]) / 2, (products[1] - products[0]) / 2
    safe = np.where(scale > 0, scale, max(float(scale.max()), 1.0) * 1e-9)
    seen = (matrix[rows, columns] - middle.sum(axis=0)) / safe
    design = gap / safe
    return np.asarray(np.linalg.solve(design @ design.T + np.eye(len(design)), design @ seen))
