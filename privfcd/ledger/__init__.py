"""Who may still spend: ledgers, the journals that keep them, reservations, and a run's privacy report."""

from privfcd.ledger.journal import Entry, Journal
from privfcd.ledger.journal_errors import (
    BudgetMismatch,
    ClockWentBack,
    EditedLedger,
    ForeignFile,
    LedgerFull,
    LedgerLocked,
    LedgerMissing,
    LedgerReadOnly,
    LedgerUnavailable,
    LedgerWarning,
    NetworkFileSystem,
    NewerLedger,
    NotAdopted,
    OldLedger,
    ReplacedLedger,
    SameRows,
    SeveralNames,
    ShortenedLedger,
    TruncatedLedger,
)
from privfcd.ledger.ledger import Ledger
from privfcd.ledger.memory_journal import MemoryJournal
from privfcd.ledger.privacy_report import PrivacyReport
from privfcd.ledger.reservation import PlanPart, Reservation
from privfcd.ledger.sqlite_journal import SqliteJournal

__all__ = [
    "BudgetMismatch",
    "ClockWentBack",
    "EditedLedger",
    "Entry",
    "ForeignFile",
    "Journal",
    "Ledger",
    "LedgerFull",
    "LedgerLocked",
    "LedgerMissing",
    "LedgerReadOnly",
    "LedgerUnavailable",
    "LedgerWarning",
    "MemoryJournal",
    "NetworkFileSystem",
    "NewerLedger",
    "NotAdopted",
    "OldLedger",
    "PlanPart",
    "PrivacyReport",
    "ReplacedLedger",
    "Reservation",
    "SameRows",
    "SeveralNames",
    "ShortenedLedger",
    "SqliteJournal",
    "TruncatedLedger",
]
