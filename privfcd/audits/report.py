"""What an audit found, for people, for machines and as a picture."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privfcd.accounting import gdp_to_epsilon
from privfcd.audits.claims import Claim

Verdict = Literal["consistent", "violated", "inconclusive"]

TIGHT_ENOUGH = 0.5
"""An audit that found less than this share of what is claimed is inconclusive."""

_MOST_SHOWN = 64


@dataclass(frozen=True)
class Witness:
    """The two tables and the attack that the decisive number comes from.

    Attributes
    ----------
    pair : tuple
        What the mechanism was run on, table 0 and table 1.
    attack : str
        When the attack fires, and which table it then names.
    test : str
        What the rates were used for.
    hits, trials : int
        How often it fired on the table that it names, of how many runs.
    false_hits, false_trials : int
        The same on the other table.
    true_positive_rate_at_least, false_positive_rate_at_most : float
        Exact bounds, both of which hold at once with the confidence of the test.
    """

    pair: tuple[Any, Any] = field(compare=False)
    attack: str
    test: str
    hits: int
    trials: int
    false_hits: int
    false_trials: int
    true_positive_rate_at_least: float
    false_positive_rate_at_most: float

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-able values."""
        answer = {name: getattr(self, name) for name in self.__dataclass_fields__}
        answer["pair"] = [jsonable(value) for value in self.pair]
        return answer


@dataclass(frozen=True)
class AuditReport:
    """What an audit of one release found.

    Attributes
    ----------
    subject : str
        What was audited.
    claim : Claim
    bound : float
        Certified lower bound on epsilon at `delta`, whatever the mechanism's law.
    delta : float
    mu_bound, mu_upper : float or None
        Certified lower bound on mu, and an upper bound on the mu of this pair. Model-based: they describe the
        mechanism where its trade-off curve is a Gaussian one. None where no Gaussian curve is claimed.
    mu_claim : float or None
        The mu that they are held against.
    confidence : float
        Probability with which all stated bounds hold at once.
    runs : int
        Runs of each table.
    method : str
    refuted : bool
        Whether the claim is refuted.
    witness : Witness
    roc : (false-positive rates, true-positive rates)
        Of the pilot runs, for thresholds over the whole range.
    curve : Claim
        The curve that `plot` draws.
    seconds : float
    noise : str
        The noise source's own label.
    """

    subject: str
    claim: Claim
    bound: float
    delta: float
    mu_bound: float | None
    mu_upper: float | None
    mu_claim: float | None
    confidence: float
    runs: int
    method: str
    refuted: bool
    witness: Witness = field(repr=False, compare=False)
    roc: tuple[NDArray[np.float64], NDArray[np.float64]] = field(repr=False, compare=False)
    curve: Claim = field(repr=False)
    seconds: float = field(compare=False)
    noise: str

    @property
    def model_epsilon(self) -> float | None:
        """The epsilon at `delta` that `mu_bound` means if the mechanism's curve is Gaussian."""
        return None if self.mu_bound is None or not self.delta else gdp_to_epsilon(self.mu_bound, self.delta)

    @property
    def tightness(self) -> float:
        """The share of the claim that the audit found: of epsilon, or of mu where a Gaussian curve is claimed."""
        claimed = self.claim.report_epsilon
        share = self.bound / claimed if claimed > 0 else math.inf
        if self.mu_bound is not None and self.mu_claim:
            share = max(share, self.mu_bound / self.mu_claim)
        return share

    @property
    def noisier_than_claimed(self) -> bool:
        """Whether this pair provably leaks less than the Gaussian curve allows: noise that the claim does not need."""
        return self.mu_upper is not None and self.mu_claim is not None and self.mu_upper < self.mu_claim

    @property
    def verdict(self) -> Verdict:
        """`"violated"`, `"consistent"` or `"inconclusive"`."""
        if self.refuted:
            return "violated"
        return "consistent" if self.tightness >= TIGHT_ENOUGH else "inconclusive"

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-able values."""
        return {
            "subject": self.subject,
            "verdict": self.verdict,
            "claim": self.claim.as_dict(),
            "epsilon_at_least": jsonable(self.bound),
            "delta": self.delta,
            "mu_at_least": jsonable(self.mu_bound),
            "mu_of_this_pair_at_most": jsonable(self.mu_upper),
            "mu_claimed": self.mu_claim,
            "noisier_than_claimed": self.noisier_than_claimed,
            "model_based_epsilon_at_least": jsonable(self.model_epsilon),
            "tightness": jsonable(self.tightness),
            "confidence": self.confidence,
            "runs": self.runs,
            "method": self.method,
            "witness": self.witness.as_dict(),
            "roc": {"false_positive_rate": self.roc[0].tolist(), "true_positive_rate": self.roc[1].tolist()},
            "seconds": self.seconds,
            "noise": self.noise,
        }

    def __str__(self) -> str:
        at = f" at delta = {self.delta:.3g}" if self.delta else ""
        lines = [
            f"Audit of {self.subject}: {self.verdict.upper()}",
            f"  claimed     {self.claim}",
            f"  found       epsilon >= {self.bound:.4g}{at}",
        ]
        if self.mu_bound is not None:
            found = f"mu >= {self.mu_bound:.4g} of {self.mu_claim:.4g}"
            if self.model_epsilon is not None:
                found += f", that is epsilon >= {self.model_epsilon:.4g} if the noise is Gaussian (model-based)"
            lines.append(f"              {found}")
        if self.noisier_than_claimed:
            lines.append(
                f"              mu <= {self.mu_upper:.4g} for this pair (model-based): more noise than is claimed"
            )
        lines += [
            f"  meaning     {self._meaning()}",
            f"  confidence  {self.confidence:.6g}, for all of these together; {self.runs:,} runs of each table",
            f"  witness     {self.witness.attack}: {self.witness.hits:,} of {self.witness.trials:,} runs rightly,"
            f" {self.witness.false_hits:,} of {self.witness.false_trials:,} wrongly",
            f"  method      {self.method}",
            f"  noise       {self.noise}",
            f"  seconds     {self.seconds:.2f}",
        ]
        return "\n".join(lines)

    def _meaning(self) -> str:
        if self.refuted:
            return "the claim is false: this pair of tables can be told apart better than it allows"
        share = "" if math.isinf(self.tightness) else f" The audit found {self.tightness:.0%} of what is claimed."
        if self.verdict == "consistent":
            return f"no fault found, which never means private: other pairs or more runs could show more.{share}"
        return f"no fault found, but the audit saw too little to have found a large one.{share}"


def jsonable(value: Any) -> Any:
    """Return `value` as something that JSON has; arrays above 64 entries by their shape, infinities as null."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.ndarray):
        return value.tolist() if value.size <= _MOST_SHOWN else f"array of shape {value.shape}"
    if isinstance(value, list | tuple):
        return [jsonable(one) for one in value]
    return repr(value)
