"""A budget: how much may be spent in all, in one of three notions, kept in exact units."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from privfcd import checks
from privfcd.accounting.conversions import epsilon_to_zcdp
from privfcd.accounting.units import UNITS_IN_ONE, units_down
from privfcd.amounts import decimal, exact, float_down
from privfcd.errors import InvalidParameter

LARGEST = 10**15
"""The largest budget: what is larger protects nothing, and could not be calculated with."""

Notion = Literal["pure", "zcdp", "approximate"]
Amount = float | Decimal | Fraction


@dataclass(frozen=True, init=False)
class Budget:
    """How much one data set may spend.

    `Budget(epsilon=1)` is pure differential privacy, `Budget(epsilon=5, delta=4e-8)` approximate, and
    `Budget(rho=0.5)` zero-concentrated. Amounts are read as the decimals that were written and kept in units of
    10⁻²⁴, rounded down.

    Parameters
    ----------
    epsilon : float, Decimal or Fraction, optional
        Above 0 and finite.
    delta : float, Decimal or Fraction
        0, or in [10⁻²⁴, 1).
    rho : float, Decimal or Fraction, optional
        Above 0 and finite; instead of epsilon.
    """

    epsilon_units: int
    delta_units: int
    rho_units: int

    def __init__(self, epsilon: Amount | None = None, delta: Amount = 0.0, rho: Amount | None = None) -> None:
        if (epsilon is None) == (rho is None):
            raise InvalidParameter(f"give either epsilon or rho, got epsilon={epsilon!r} and rho={rho!r}")
        if rho is not None and delta:
            raise InvalidParameter(f"a rho budget takes no delta, got delta={delta!r}")
        delta_units = _units("delta", delta, least=0)
        if delta_units >= UNITS_IN_ONE:
            raise checks.refuse("delta", delta, "in [0, 1)")
        if delta and not delta_units:
            raise checks.refuse("delta", delta, "0, or in [1e-24, 1)")
        self._set(
            0 if epsilon is None else _units("epsilon", epsilon, least=1),
            delta_units,
            0 if rho is None else _units("rho", rho, least=1),
        )

    def _set(self, epsilon_units: int, delta_units: int, rho_units: int) -> None:
        object.__setattr__(self, "epsilon_units", epsilon_units)
        object.__setattr__(self, "delta_units", delta_units)
        object.__setattr__(self, "rho_units", rho_units)

    @classmethod
    def from_units(cls, epsilon_units: int = 0, delta_units: int = 0, rho_units: int = 0) -> Budget:
        """Return the budget with exactly these units of 10⁻²⁴."""
        budget = object.__new__(cls)
        budget._set(epsilon_units, delta_units, rho_units)
        return budget

    @property
    def notion(self) -> Notion:
        """`"pure"`, `"zcdp"` or `"approximate"`."""
        if self.rho_units:
            return "zcdp"
        return "approximate" if self.delta_units else "pure"

    @property
    def epsilon(self) -> float | None:
        """Epsilon as a float, rounded down; None for a rho budget."""
        return _as_float(self.epsilon_units) if self.epsilon_units else None

    @property
    def delta(self) -> float:
        """Delta as a float, rounded down."""
        return _as_float(self.delta_units)

    @property
    def rho(self) -> float | None:
        """Rho as a float, rounded down; None for an epsilon budget."""
        return _as_float(self.rho_units) if self.rho_units else None

    def zcdp_units(self) -> int:
        """Return the rho that this budget allows, in units: by the tight conversion where it is approximate."""
        if self.notion == "approximate":
            assert self.epsilon is not None
            return units_down(decimal(epsilon_to_zcdp(self.epsilon, self.delta)))
        return self.rho_units

    def split(self, parts: int) -> list[Budget]:
        """Return `parts` budgets of equal size, to a unit, that add up to exactly this one."""
        parts = checks.count("parts", parts)
        amounts = (self.epsilon_units, self.delta_units, self.rho_units)
        if any(0 < amount < parts for amount in amounts):
            raise checks.refuse("parts", parts, "small enough that each part gets a unit of 1e-24")
        return [
            Budget.from_units(*(amount // parts + (index < amount % parts) for amount in amounts))
            for index in range(parts)
        ]

    def __str__(self) -> str:
        match self.notion:
            case "zcdp":
                return f"rho = {self.rho:g} (zCDP)"
            case "pure":
                return f"epsilon = {self.epsilon:g} (pure)"
        return f"(epsilon, delta) = ({self.epsilon:g}, {self.delta:g})"


def _as_float(units: int) -> float:
    return float_down(Fraction(units, UNITS_IN_ONE))


def _units(name: str, value: Amount, *, least: int) -> int:
    accepted = f"a finite number {'above' if least else 'of at least'} 0"
    amount = exact(value)
    if not isinstance(amount, Fraction):
        raise checks.refuse(name, value, accepted)
    if amount > LARGEST:
        raise checks.refuse(name, value, f"at most {LARGEST:g}")
    units = units_down(amount)
    if amount < 0 or units < least:
        raise checks.refuse(name, value, accepted)
    return units
