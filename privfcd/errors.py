"""The errors that privfcd raises, under one root.

Every message names the argument, the value that was given and what is accepted. An error that is raised
before a charge leaves every ledger as it was.
"""

from __future__ import annotations


class PrivfcdError(Exception):
    """Root of all errors that privfcd raises on purpose."""


class InvalidParameter(PrivfcdError, ValueError):
    """A parameter is outside what is accepted."""


class InvalidTable(PrivfcdError, ValueError):
    """A table cannot be used: shape, names, or cells. Shown to the table's owner only."""


class BudgetExceeded(PrivfcdError):
    """A charge does not fit what is left; nothing was read and nothing was recorded as spent."""


class CopiedBudget(PrivfcdError):
    """A budget in memory was forked, pickled or copied; the copy grants nothing."""


class LedgerCorrupt(PrivfcdError):
    """A stored ledger is damaged or was changed by something else."""


class ConvergenceFailure(PrivfcdError):
    """An optimiser stopped without an answer that can be used."""


class PartyFailed(PrivfcdError):
    """A party did not answer, or answered with something that the protocol does not allow."""
