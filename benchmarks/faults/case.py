"""A fault and its right twin, and how an audit judges either."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from privfcd.audits import Claim, audit
from privfcd.audits.algorithm import audit_algorithm
from privfcd.audits.sensitivity import search_sensitivity
from privfcd.data.private import PrivateTable
from privfcd.mechanisms import SimulatedNoise

ALPHA = 0.05


@dataclass(frozen=True)
class Finding:
    """What one audit said: whether it caught a fault, and its figures in words."""

    caught: bool
    words: str


Judge = Callable[[Any, int, int, float], Finding]
"""Called with the subject, the number of runs, a seed and the level."""


@dataclass(frozen=True)
class Case:
    """A fault.

    Parameters
    ----------
    name : str
    wrong, right : object
        What is audited.
    judge : function of (subject, runs, seed, alpha)
    runs : int
        Runs of each table, evaluations or draws: with so many the fault is caught at 95 %.
    table : int or None
        The most that may be needed, where there is such a figure.
    unit : str
    """

    name: str
    wrong: Any
    right: Any
    judge: Judge
    runs: int
    table: int | None = None
    unit: str = "runs"

    def find(self, seed: int, alpha: float = ALPHA, *, right: bool = False, runs: int | None = None) -> Finding:
        """Audit the fault, or its right twin, once."""
        return self.judge(self.right if right else self.wrong, self.runs if runs is None else runs, seed, alpha)


def by_audit(claim: Claim | None = None, pair: tuple[Any, Any] | None = None, batched: bool = False) -> Judge:
    """Judge by the audit of one mechanism."""

    def judge(subject: Any, runs: int, seed: int, alpha: float) -> Finding:
        report = audit(subject, claim, runs=runs, pair=pair, noise=SimulatedNoise(seed), alpha=alpha, batched=batched)
        return Finding(report.refuted, f"epsilon >= {report.bound:.3g} of {report.claim.report_epsilon:.3g}")

    return judge


def by_replay(
    table: Callable[[], PrivateTable], claim: Claim | None = None, canary: tuple[Any, Any] | None = None
) -> Judge:
    """Judge by the audit of a whole algorithm, many runs with replay."""

    def judge(subject: Any, runs: int, seed: int, alpha: float) -> Finding:
        report = audit_algorithm(subject, [table()], runs=runs, seed=seed, alpha=alpha, claim=claim, canary=canary)
        return Finding(report.refuted, f"epsilon >= {report.bound:.3g} of {report.claim.report_epsilon:.3g}")

    return judge


def by_search(n: int, d: int, bound: float = 1.0, outside: bool = False) -> Judge:
    """Judge by the search for neighbours that move a query by more than it says."""

    def judge(query: Any, evaluations: int, seed: int, alpha: float) -> Finding:
        report = search_sensitivity(query, n, d, bound=bound, evaluations=evaluations, seed=seed, outside=outside)
        return Finding(report.verdict == "violated", f"{report.ratio:.3g} of the claimed sensitivity")

    return judge
