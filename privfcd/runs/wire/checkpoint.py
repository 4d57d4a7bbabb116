"""What a coordinator has asked and been answered, on disk: one that dies goes on where it was, and nobody pays twice.

A coordinator's half is a function of the answers. To go on, it is run again from the beginning; answers that are here
are not asked for again.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from privfcd.errors import InvalidParameter, PrivfcdError
from privfcd.markup import one_line


class CheckpointUnusable(PrivfcdError):
    """A checkpoint cannot be read, or is of another study or of another course of the run."""


class Checkpoint:
    """A run's questions and answers.

    Parameters
    ----------
    path : path, optional
        A file, made for its owner alone where there is none; in this process's memory by default.
    study : str
        The study's digest.
    """

    def __init__(self, path: str | os.PathLike[str] | None, study: str) -> None:
        self._place = ":memory:" if path is None else os.fspath(path)
        self._late: list[tuple[str, tuple[object, ...]]] = []
        with self._using():
            if path is not None:  # exact answers of a study without a budget are in it, and the run's number
                os.close(os.open(self._place, os.O_RDWR | os.O_CREAT, 0o600))
            self._store = sqlite3.connect(self._place, isolation_level=None, check_same_thread=False)
            self._store.execute("PRAGMA synchronous = FULL")
            self._store.executescript(
                "CREATE TABLE IF NOT EXISTS run (study TEXT, run TEXT, parties TEXT, charged INTEGER);"
                "CREATE TABLE IF NOT EXISTS asked (sequence INTEGER, request BLOB, PRIMARY KEY (sequence));"
                "CREATE TABLE IF NOT EXISTS answers (sequence INTEGER, party TEXT, answer BLOB, "
                "PRIMARY KEY (sequence, party));"
                "CREATE TABLE IF NOT EXISTS lost (party TEXT PRIMARY KEY, sequence INTEGER, why TEXT);"
            )
            row = self._store.execute("SELECT study, run, parties, charged FROM run").fetchone()
            if row is not None and not all(isinstance(each, str) for each in row[:3]):
                raise ValueError("what it says of its run is no text")
            asked = self._store.execute("SELECT sequence, request FROM asked").fetchall()
            answers = self._store.execute("SELECT sequence, party, answer FROM answers").fetchall()
            lost = self._store.execute("SELECT party, sequence, why FROM lost").fetchall()
            self._lost = {str(party): (int(sequence), str(why)) for party, sequence, why in lost}
            self._asked: dict[int, bytes] = {sequence: bytes(request) for sequence, request in asked}
            self._answers = {(sequence, str(party)): bytes(answer) for sequence, party, answer in answers}
        if row is not None and row[0] != study:
            raise CheckpointUnusable(
                f"checkpoint {Path(self._place).name!r} is of another study: give each study a file of its own"
            )
        self._study = study
        self.run: str = "" if row is None else row[1]
        self.charged = row is not None and bool(row[3])
        self.parties: tuple[str, ...] = () if row is None else tuple(row[2].split("\n"))

    @property
    def begun(self) -> bool:
        """Whether there is a run here."""
        return bool(self.run)

    def begin(self, parties: tuple[str, ...]) -> None:
        """Begin a run with these parties; what was here before is dropped."""
        if any("\n" in name for name in parties):
            raise InvalidParameter(f"names of parties must be of one line, got {list(parties)}")
        run = secrets.token_hex(16)
        with self._using(), self._store:
            self._store.execute("BEGIN")
            for table in ("run", "asked", "answers", "lost"):
                self._store.execute(f"DELETE FROM {table}")
            self._store.execute("INSERT INTO run VALUES (?, ?, ?, 0)", (self._study, run, "\n".join(parties)))
        self.run, self.parties, self.charged = run, parties, False
        self._asked, self._answers, self._lost, self._late = {}, {}, {}, []

    def charge(self) -> None:
        """Note that parties are about to be charged: from now on the run is not begun again."""
        if not self.charged:
            with self._using():
                self._store.execute("UPDATE run SET charged = 1")
            self.charged = True

    def asked(self, sequence: int) -> bytes | None:
        """Return the request that was sent under this number."""
        return self._asked.get(sequence)

    def ask(self, sequence: int, request: bytes) -> None:
        """Note a request before it is sent.

        Raises
        ------
        CheckpointUnusable
            Another request has this number: the coordinator does not go the way that it went before.
        """
        known = self._asked.setdefault(sequence, request)
        if known != request:
            raise CheckpointUnusable(
                f"question {sequence} differs from the one in the checkpoint: it was made with other settings or another "
                "version, or its computer rounds differently"
            )
        self._note("INSERT OR IGNORE INTO asked VALUES (?, ?)", (sequence, request))

    def answers(self, sequence: int) -> dict[str, bytes]:
        """Return the answers that have arrived, by party."""
        return {party: answer for (number, party), answer in self._answers.items() if number == sequence}

    def keep(self, sequence: int, party: str, answer: bytes) -> None:
        """Note an answer when it arrives."""
        self._answers.setdefault((sequence, party), answer)
        self._note("INSERT OR IGNORE INTO answers VALUES (?, ?, ?)", (sequence, party, answer))

    @property
    def lost(self) -> dict[str, tuple[int, str]]:
        """The parties that the run goes on without: at which question each was lost, and why."""
        return dict(self._lost)

    def lose(self, sequence: int, party: str, why: str) -> None:
        """Note that the run goes on without this party from this question on: it is not asked again."""
        self._lost.setdefault(party, (sequence, why))
        self._note("INSERT OR IGNORE INTO lost VALUES (?, ?, ?)", (party, sequence, why))

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def _note(self, statement: str, values: tuple[object, ...]) -> None:
        """Write, or keep for the next time where that cannot be done now: a run that is paid for goes on.

        What is not written when the process dies is asked for again, under the same number, and the parties have it.
        """
        self._late.append((statement, values))
        with contextlib.suppress(sqlite3.Error):
            while self._late:
                self._store.execute(*self._late[0])
                del self._late[0]

    @contextlib.contextmanager
    def _using(self) -> Iterator[None]:
        """Name the file in whatever goes wrong with it."""
        try:
            yield
        except (sqlite3.Error, OSError, ValueError, TypeError, OverflowError) as error:
            raise CheckpointUnusable(
                f"checkpoint {Path(self._place).name!r} cannot be used: {one_line(error)}; is it the right file, and its "
                "disk not full? A study that has charged nobody can begin again with a new one"
            ) from error
