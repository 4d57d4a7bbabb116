"""The chain that stored entries form: each carries a hash of its own content and of the entry before it.

The hash of entry k is SHA-256 of the 32 bytes of the hash of entry k - 1 followed by the entry's document (all but
the hash itself) as JSON: keys sorted, no spaces, ASCII only, amounts as decimal text. The first entry follows the
genesis hash, SHA-256 of "privfcd ledger 1\\n" and the ledger's id. Changing an entry therefore changes every later
hash. It does not stop someone who can write the file from writing a whole new chain, or from cutting its tail off:
that shows only against a head that was kept elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from privfcd.ledger.journal import Balances, Entry


@dataclass(frozen=True)
class Record:
    """An entry as it is stored.

    Attributes
    ----------
    number : int
        1, 2, 3, ... within the whole ledger.
    scope, sequence, kind, label, event, spent, time, request, reference, hash
        As in `Entry`.
    balances : Mapping[str, tuple[int, int | None]]
        (spent, cap) of all accounts of the scope after this entry.
    digest : str
        SHA-256 of the answer that was stored, for `"answer"` entries; empty otherwise.
    """

    number: int
    scope: str
    sequence: int
    kind: str
    label: str
    event: str
    spent: Mapping[str, int]
    balances: Balances
    time: str
    request: str
    reference: int
    digest: str
    hash: str = ""

    def document(self) -> dict[str, Any]:
        """Return all but the hash for JSON, amounts as text: they do not fit other readers' numbers."""
        return {
            **{name: getattr(self, name) for name in COLUMNS if name not in ("spent", "balances", "hash")},
            "spent": {account: str(units) for account, units in self.spent.items()},
            "balances": {
                account: [str(spent), None if cap is None else str(cap)]
                for account, (spent, cap) in self.balances.items()
            },
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any], digest_of_chain: str) -> Record:
        """Return the record that a document describes.

        Raises
        ------
        KeyError, TypeError, ValueError
            It is not the document of a record.
        """
        amounts = {str(account): int(units) for account, units in document["spent"].items()}
        balances = {
            str(account): (int(spent), None if cap is None else int(cap))
            for account, (spent, cap) in document["balances"].items()
        }
        plain = {name: document[name] for name in COLUMNS if name not in ("spent", "balances", "hash")}
        for name, value in plain.items():
            if type(value) is not (int if name in ("number", "sequence", "reference") else str):
                raise TypeError(f"{name} is {value!r}")
        if not re.fullmatch("[0-9a-f]{64}", digest_of_chain):
            raise ValueError(f"hash is {digest_of_chain!r}")
        return cls(spent=amounts, balances=balances, hash=digest_of_chain, **plain)

    def row(self) -> tuple[Any, ...]:
        """Return the record's columns, in the order of `COLUMNS`."""
        document = {**self.document(), "hash": self.hash}
        return tuple(canonical(value) if isinstance(value, dict) else value for value in map(document.get, COLUMNS))

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Record:
        """Return the record in a row with `COLUMNS`; raises as `from_document` does."""
        document = dict(zip(COLUMNS, row, strict=True))
        document["spent"], document["balances"] = json.loads(document["spent"]), json.loads(document["balances"])
        return cls.from_document(document, document["hash"])

    def entry(self) -> Entry:
        """Return what a ledger sees of it."""
        return Entry(
            self.sequence,
            self.scope,
            self.kind,
            self.label,
            self.event,
            dict(self.spent),
            self.time,
            self.request,
            self.reference,
            self.hash,
        )

    def head(self) -> str:
        """Return `number:hash`, which stands for this entry and all before it."""
        return f"{self.number}:{self.hash}"

    def chained(self, previous: str) -> Record:
        """Return the record with its hash, as follower of the one with hash `previous`."""
        return replace(self, hash=entry_hash(previous, self))


COLUMNS = tuple(field.name for field in fields(Record))


def canonical(document: Mapping[str, Any]) -> str:
    """Return the one JSON text of a document."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def genesis(ledger: str) -> str:
    """Return the hash that the first entry of the ledger with this id follows."""
    return hashlib.sha256(f"privfcd ledger 1\n{ledger}".encode()).hexdigest()


def entry_hash(previous: str, record: Record) -> str:
    """Return the hash of `record` after the entry with hash `previous`."""
    content = canonical(record.document()).encode("ascii")
    return hashlib.sha256(bytes.fromhex(previous) + content).hexdigest()
