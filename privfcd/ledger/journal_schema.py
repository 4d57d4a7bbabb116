"""The tables of a stored ledger, and the marks by which its file is known.

Amounts are text of exactly 60 digits, because SQLite's integers end at 2⁶³ units, 9.2e-6. Texts of one length that
hold digits only compare as their numbers do, so that `CHECK (spent <= cap)` is the rule that it looks like. Entries
and answers cannot be changed or deleted, nor can a cap.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Mapping

from privfcd.ledger.journal import WIDTH
from privfcd.ledger.journal_errors import EditedLedger, ForeignFile, LedgerUnavailable, NewerLedger, OldLedger

SCHEMA_VERSION = 2
"""Version 1 kept a write-ahead log, and no head beside the file; its tables were the same."""
APPLICATION_ID = 0x50464344  # "PFCD"
PAGE_SIZE = 4096
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


def fixed_width(units: int) -> str:
    """Return an amount, which is below 10^WIDTH, as the tables hold it."""
    return str(units).zfill(WIDTH)


def check_sqlite() -> None:
    """Raise LedgerUnavailable if this Python's SQLite is too old."""
    if sqlite3.sqlite_version_info < LEAST_SQLITE:
        needed = ".".join(map(str, LEAST_SQLITE))
        raise LedgerUnavailable(f"a stored ledger needs SQLite {needed} or later, got {sqlite3.sqlite_version}")


def write_schema(connection: sqlite3.Connection, settings: Mapping[str, str]) -> None:
    """Make an empty database a ledger without entries, within the transaction that the caller has begun."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    for statement in TABLES.values():
        connection.execute(statement)
    connection.executemany("INSERT INTO settings VALUES (?, ?)", settings.items())


def new_settings(created: str) -> dict[str, str]:
    """Return the settings of a new ledger: its id, when it was made, and the key of its fingerprints of rows."""
    return {"ledger": secrets.token_hex(16), "created": created, "row key": secrets.token_hex(32), "restored": "0"}


def check_version(connection: sqlite3.Connection, path: str, accepted: tuple[int, ...] = (SCHEMA_VERSION,)) -> int:
    """Return the version of a ledger's format.

    Raises
    ------
    ForeignFile
        Its application id is not that of a ledger.
    NewerLedger, OldLedger
        Another version wrote it, and it is not one of `accepted`.
    """
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID or version < 1:
        raise ForeignFile(f"{path} is an SQLite database, but not a privfcd ledger; it was left as it is")
    if version > SCHEMA_VERSION:
        raise NewerLedger(
            f"{path} has ledger schema {version}, this version of privfcd knows up to {SCHEMA_VERSION}: update privfcd"
        )
    if version not in accepted:
        raise OldLedger(
            f"{path} has the format of an older privfcd (schema {version}). Run `privfcd ledger upgrade {path}`: what is "
            "spent stays spent"
        )
    return int(version)


def check_schema(connection: sqlite3.Connection, path: str) -> None:
    """Raise EditedLedger unless the tables are defined as they were made."""
    stored = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    wrong = sorted(map(str, (name for name in stored.keys() | TABLES.keys() if stored.get(name) != TABLES.get(name))))
    if wrong:
        raise EditedLedger(f"{path}: the definitions of {', '.join(wrong)} are not those that the ledger was made with")


def settings_of(connection: sqlite3.Connection, path: str, version: int = SCHEMA_VERSION) -> dict[str, str]:
    """Return the ledger's settings, or raise EditedLedger.

    They are `ledger` (its id), `created`, `row key`, and `restored`: the number of the last entry that came from an export.
    """
    settings = dict(connection.execute("SELECT name, value FROM settings"))
    if version == 1:
        settings.setdefault("restored", "0")
    patterns = {"ledger": "[0-9a-f]{32}", "created": ".+", "row key": "[0-9a-f]{64}", "restored": "[0-9]{1,18}"}
    if settings.keys() != patterns.keys() or not all(re.fullmatch(patterns[name], settings[name]) for name in patterns):
        raise EditedLedger(f"{path}: the table of settings was changed")
    return settings
