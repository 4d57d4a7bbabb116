"""The tables of a stored ledger, and the marks by which its file is known.

Amounts are text of exactly 60 digits, because SQLite's integers end at 2⁶³ units, 9.2e-6. Texts of one length that
hold digits only compare as their numbers do, so that `CHECK (spent <= cap)` is the rule that it looks like. Entries
and answers cannot be changed or deleted, nor can a cap.
"""

from __future__ import annotations

import re
import secrets
import sqlite3

from privfcd import checks
from privfcd.accounting.journal_errors import EditedLedger, ForeignFile, LedgerUnavailable, NewerLedger

SCHEMA_VERSION = 1
APPLICATION_ID = 0x50464344  # "PFCD"
PAGE_SIZE = 4096
WIDTH = 60
LEAST_SQLITE = (3, 37, 0)  # STRICT tables

_DIGITS = f"length({{0}}) = {WIDTH} AND {{0}} NOT GLOB '*[^0-9]*'"

TABLES = {
    "settings": "CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID",
    "entries": """CREATE TABLE entries (
  number INTEGER PRIMARY KEY CHECK (number >= 1),
  scope TEXT NOT NULL,
  sequence INTEGER NOT NULL CHECK (sequence >= 0),
  kind TEXT NOT NULL,
  label TEXT NOT NULL,
  event TEXT NOT NULL,
  spent TEXT NOT NULL,
  balances TEXT NOT NULL,
  time TEXT NOT NULL,
  request TEXT NOT NULL,
  reference INTEGER NOT NULL,
  digest TEXT NOT NULL,
  hash TEXT NOT NULL CHECK (length(hash) = 64),
  UNIQUE (scope, sequence)
) STRICT""",
    "accounts": f"""CREATE TABLE accounts (
  scope TEXT NOT NULL,
  account TEXT NOT NULL,
  spent TEXT NOT NULL CHECK ({_DIGITS.format("spent")}),
  cap TEXT CHECK ({_DIGITS.format("cap")}),
  PRIMARY KEY (scope, account),
  CHECK (spent <= cap)
) STRICT, WITHOUT ROWID""",
    "answers": """CREATE TABLE answers (
  scope TEXT NOT NULL,
  request TEXT NOT NULL,
  entry INTEGER NOT NULL,
  answer BLOB NOT NULL,
  PRIMARY KEY (scope, request)
) STRICT""",
    "known_rows": """CREATE TABLE known_rows (
  fingerprint TEXT NOT NULL,
  scope TEXT NOT NULL,
  PRIMARY KEY (fingerprint, scope)
) STRICT, WITHOUT ROWID""",
    "closed_once": "CREATE UNIQUE INDEX closed_once ON entries (scope, reference) WHERE kind = 'close'",
    **{
        f"keep_{table}_{verb.lower()}": f"CREATE TRIGGER keep_{table}_{verb.lower()} BEFORE {verb} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} are never changed'); END"
        for table in ("entries", "answers")
        for verb in ("UPDATE", "DELETE")
    },
    "keep_accounts_delete": "CREATE TRIGGER keep_accounts_delete BEFORE DELETE ON accounts "
    "BEGIN SELECT RAISE(ABORT, 'accounts are never deleted'); END",
    "keep_accounts_cap": "CREATE TRIGGER keep_accounts_cap BEFORE UPDATE ON accounts WHEN NEW.cap IS NOT OLD.cap "
    "BEGIN SELECT RAISE(ABORT, 'caps are never changed'); END",
}


def fixed_width(name: str, units: int) -> str:
    """Return an amount as the tables hold it, or raise InvalidParameter: none that is stored reaches 10³⁶."""
    if units >= 10**WIDTH:
        raise checks.refuse(name, units, f"below 10^{WIDTH} units in a stored ledger")
    return str(units).zfill(WIDTH)


def check_sqlite() -> None:
    """Raise LedgerUnavailable if this Python's SQLite is too old."""
    if sqlite3.sqlite_version_info < LEAST_SQLITE:
        needed = ".".join(map(str, LEAST_SQLITE))
        raise LedgerUnavailable(f"a stored ledger needs SQLite {needed} or later, got {sqlite3.sqlite_version}")


def write_schema(connection: sqlite3.Connection, created: str) -> None:
    """Make an empty database a ledger without entries."""
    connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    for statement in TABLES.values():
        connection.execute(statement)
    settings = {"ledger": secrets.token_hex(16), "created": created, "row key": secrets.token_hex(32)}
    connection.executemany("INSERT INTO settings VALUES (?, ?)", settings.items())
    connection.execute("COMMIT")


def check_schema(connection: sqlite3.Connection, path: str) -> None:
    """Raise unless the database is a ledger of this version, its tables defined as they were made.

    Raises
    ------
    ForeignFile
        Its application id is not that of a ledger.
    NewerLedger
        A later version wrote it.
    EditedLedger
        The definitions were changed.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID or version < 1:
        raise ForeignFile(f"{path} is an SQLite database, but not a privfcd ledger; it was left as it is")
    if version > SCHEMA_VERSION:
        raise NewerLedger(
            f"{path} has ledger schema {version}, this version of privfcd knows up to {SCHEMA_VERSION}: update privfcd"
        )
    stored = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    wrong = sorted(name for name in stored.keys() | TABLES.keys() if stored.get(name) != TABLES.get(name))
    if wrong:
        raise EditedLedger(f"{path}: the definitions of {', '.join(wrong)} are not those that the ledger was made with")


def settings_of(connection: sqlite3.Connection, path: str) -> dict[str, str]:
    """Return the ledger's id, time of creation and row key, or raise EditedLedger."""
    settings = dict(connection.execute("SELECT name, value FROM settings"))
    if settings.keys() != {"ledger", "created", "row key"} or not re.fullmatch("[0-9a-f]{64}", settings["row key"]):
        raise EditedLedger(f"{path}: the table of settings was changed")
    return settings
