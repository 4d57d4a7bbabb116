"""What can be wrong with a stored ledger, each under its own name.

`LedgerUnavailable` and its kinds mean that nothing can be recorded now, so that nothing is granted; the ledger is as it
was. Kinds of `LedgerCorrupt` mean that the file is not what this library left there; it is reported and left alone.
"""

from __future__ import annotations

from privfcd.errors import InvalidParameter, LedgerCorrupt, PrivfcdError


class LedgerUnavailable(PrivfcdError):
    """The ledger cannot be used now. Nothing was granted."""


class LedgerMissing(LedgerUnavailable):
    """There is no ledger at the path."""


class LedgerReadOnly(LedgerUnavailable):
    """The file or its folder cannot be written to."""


class LedgerFull(LedgerUnavailable):
    """The disk is full. The charge was not recorded."""


class LedgerLocked(LedgerUnavailable):
    """Another process kept the ledger locked for longer than the timeout. The charge was not recorded."""


class NewerLedger(LedgerUnavailable):
    """The ledger was written by a newer version of this library."""


class OldLedger(LedgerUnavailable):
    """The ledger has the format of an older version: `privfcd ledger upgrade` brings it up to date."""


class SeveralNames(LedgerUnavailable):
    """The file can be reached by several names, each with logs of its own: a hard link, or a mount of the file alone."""


class NotAdopted(LedgerReadOnly):
    """The file that holds the ledger's head is missing: it can be read, and charged after `privfcd ledger adopt`."""


class ForeignFile(LedgerCorrupt):
    """The file is not a privfcd ledger."""


class TruncatedLedger(LedgerCorrupt):
    """The file is shorter than it says it is."""


class EditedLedger(LedgerCorrupt):
    """Something in the file was changed by another hand: a row, a balance, or the definition of a table."""


class ReplacedLedger(LedgerCorrupt):
    """The file was removed or replaced while it was in use."""


class ShortenedLedger(EditedLedger):
    """The chain ends before, or differs from, the last entry that was recorded: an old copy, or entries were cut off."""


class BudgetMismatch(InvalidParameter):
    """A data set is declared with one budget and was opened with another."""


class LedgerWarning(UserWarning):
    """Something about a ledger that its owner should look at."""


class NotWritten(LedgerWarning):
    """Something that is no charge could not be written now; what was charged is on disk."""


class ClockWentBack(LedgerWarning):
    """The clock is behind the last entry. Entries stay in order by their numbers."""


class NetworkFileSystem(LedgerWarning):
    """The ledger is on a network file system, where SQLite's locks and shared memory cannot be relied on."""


class SameRows(LedgerWarning):
    """The same rows are known under another name, whose budget is separate."""
