"""The accountants by name."""

from __future__ import annotations

from collections.abc import Callable

from dp_accounting import PrivacyAccountant

from privfcd import checks
from privfcd.accounting.accountants import PureDPAccountant, ZCDPAccountant
from privfcd.accounting.tight import TightAccountant

ACCOUNTANTS: dict[str, Callable[[], PrivacyAccountant]] = {
    "tight": TightAccountant,
    "zcdp": ZCDPAccountant,
    "zcdp-loose": lambda: ZCDPAccountant(tight=False),
    "pure": PureDPAccountant,
}
"""The names that `epsilon_of`, `calibrate` and ledgers take."""

DEFAULT_ACCOUNTANT = "tight"


def accountant_named(name: str) -> Callable[[], PrivacyAccountant]:
    """Return the accountant's class, or say which names there are."""
    if not isinstance(name, str) or name not in ACCOUNTANTS:
        raise checks.refuse("accountant", name, "one of " + ", ".join(ACCOUNTANTS))
    return ACCOUNTANTS[name]
