"""A party's desk: its table behind its ledger, what a study asks of it, and the half that answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from privfcd import checks
from privfcd.accounting import epsilon_of, gaussian_event
from privfcd.algorithms.kept_messages import Planned
from privfcd.algorithms.protocol import Party
from privfcd.algorithms.secure.masks import raw, read_identity
from privfcd.algorithms.secure.seat import Seat
from privfcd.algorithms.secure.terms import SumTerms
from privfcd.data.private import PrivateTable
from privfcd.data.schema import Schema
from privfcd.data.tables import Table, read_table
from privfcd.errors import InvalidParameter
from privfcd.ledger.privacy_report import PrivacyReport, rounded_up
from privfcd.ledger.tools import open_ledger, show
from privfcd.mechanisms import NoiseSource, SecureNoise
from privfcd.runs import log1p_rows
from privfcd.runs.method import Method
from privfcd.runs.wire.durable import DurableParty
from privfcd.runs.wire.study_file import Study
from privfcd.runs.wire.study_ledger import StudyLedger


@dataclass(frozen=True, eq=False)
class Desk:
    """What a party has before it takes part.

    Attributes
    ----------
    study : Study
    name : str
        Of the study's parties, which this one is.
    ledger : StudyLedger
    method : Method
    table : Table
        The study's columns, in its order; for a `PrivateTable` on `ledger` only.
    noise : NoiseSource
    """

    study: Study
    name: str
    ledger: StudyLedger
    method: Method
    table: Table = field(repr=False)
    noise: NoiseSource
    identity: Any = field(default=None, repr=False)
    most_alone: float | None = None
    _made: list[Any] = field(default_factory=list, repr=False)

    @classmethod
    def open(
        cls,
        study: Study,
        name: str,
        table: str | os.PathLike[str],
        ledger: str | os.PathLike[str],
        *,
        data_set: str | None = None,
        noise: NoiseSource | None = None,
        schema: Any = None,
        identity: str | os.PathLike[str] | None = None,
        most_alone: float | None = None,
    ) -> Desk:
        """Read the table and open the ledger; nothing is charged.

        Parameters
        ----------
        study : Study
        name : str
            The party's, one of the study's.
        table : path
            CSV or Parquet, with the study's columns among its own.
        ledger : path
            Made by `privfcd ledger init`.
        data_set : str, optional
            Whose budget pays; the ledger's only one by default.
        noise : NoiseSource, optional
            Secure by default.
        schema : Schema, mapping or path, optional
            This party's own, where it writes its cells otherwise than the study says: units, spellings, gaps. All else must
            be as the study has it.
        identity : path, optional
            The party's long-term private key, made by `privfcd party keygen`: for a study of secure sums.
        most_alone : float, optional
            The party's own limit on epsilon if all other parties collude, for a study of secure sums.

        Raises
        ------
        InvalidParameter, InvalidTable
            What is wrong; for the owner's eyes.
        """
        if name not in study.parties:
            raise checks.refuse("name", name, "one of the study's parties: " + ", ".join(study.parties))
        method = Method(study)
        declared = _own_schema(study, schema)
        given = read_table(table, columns=study.columns) if declared is None else declared.apply(table)
        if study.log1p:
            given = replace(given, rows=log1p_rows(given, name))
        own = StudyLedger(open_ledger(ledger, _data_set(ledger, data_set)), study.epsilon, study.delta)
        own_key = _identity(study, name, identity, most_alone)
        return cls(study, name, own, method, given, SecureNoise() if noise is None else noise, own_key, most_alone)

    def half(self) -> Party:
        """Return the party's half on a table made anew, whose noise streams are those of a table's first run."""
        made = self.method.party(self._table(), self.study.parties.index(self.name), self._seat())
        self._made[:] = [made]
        return made

    def preview(self) -> dict[str, Any]:
        """Return what the study asks of this party and what it will cost; asks the ledger, charges nothing.

        Raises
        ------
        BudgetExceeded, InvalidParameter
            The party cannot take part.
        """
        study = self.study
        made = self.method.party(self._table(), self.study.parties.index(self.name))
        facts, *offers = [message for those in self.method.agreed().values() for message in those]
        made.answer(facts)
        answer = made.answer(offers[0])
        if answer == Planned(False):  # the coordinator will ask for less
            made.answer(offers[1])
        left = self.ledger.left()
        return {
            "study": study.name,
            "digest": study.digest,
            "method": study.method,
            "party": self.name,
            "parties": list(study.parties),
            "columns": list(study.columns),
            "rows (public)": len(self.table.rows),
            "bounds (public)": None if study.bounds is None else list(study.bounds),
            "log1p": study.log1p,
            **({} if self.table.schema is None else {"declared (public)": self.table.schema.lines()}),
            "parameters": dict(study.parameters),
            "epsilon": "inf: no privacy" if study.epsilon is None else study.epsilon,
            "delta": study.delta,
            "ledger": self.ledger.name,
            "left before": "no budget" if self.ledger.open else str(left or "nothing"),
            "noise": "none: exact answers" if self.ledger.open else self.noise.label,
            **self._sums(answer),
        }

    def _seat(self) -> Seat | None:
        study = self.study
        if not study.secure:
            return None
        return Seat(self.name, study.public_keys, self.identity, study.digest, most_alone=self.most_alone)

    def _sums(self, answer: Any) -> dict[str, Any]:
        """Return what a preview says of secure sums."""
        study = self.study
        if not study.secure:
            return {"sum": "per-party: each party adds noise for itself"}
        terms = SumTerms(len(study.parties), study.colluders, study.dropouts)
        assert study.delta is not None  # secure sums have a budget
        event = gaussian_event(1.0, 1 / (answer.mu * terms.less_noise))
        alone = epsilon_of(event, study.delta, self.ledger.accountant)
        return {
            "sum": f"secure: one noise for all {terms.parties} parties, and only the sum is seen",
            "holds while at most": f"{terms.colluders} parties collude with the coordinator, {terms.dropouts} drop out",
            "if all others collude": f"epsilon = {rounded_up(alone)} at delta = {study.delta}",
        }

    def report(self) -> PrivacyReport | None:
        """Return what was promised to the rows for what this process charged; None where it has charged nothing.

        For the owner: it is what a run of the same study in one process reports of this table.
        """
        reports = self._made[0].reports() if self._made else []
        return reports[0] if reports else None

    def _table(self) -> PrivateTable:
        bounds = self.study.bounds if self.table.schema is None else None  # a schema has its own
        return PrivateTable(self.table, ledger=self.ledger, bounds=bounds, noise=self.noise)

    def party(self, *, attempt: int = 1, log: Callable[[str], None] = lambda line: None) -> DurableParty:
        """Return the half that answers requests."""
        return DurableParty(
            self.half,
            self.ledger,
            self.method.codec,
            self.study.digest,
            name=self.name,
            keys=self.study.keys,
            agreed=self.method.agreed(),
            charging=self.method.charging,
            ending=self.method.ending,
            attempt=checks.count("attempt", attempt),
            log=log,
        )


def _identity(study: Study, name: str, path: str | os.PathLike[str] | None, most_alone: float | None) -> Any:
    """Return the party's long-term key, which must be the one that the study file names."""
    if not study.secure:
        if path is not None or most_alone is not None:
            raise InvalidParameter("identity and most_alone must be left out: the study has no secure sums")
        return None
    if most_alone is not None:
        checks.positive("most_alone", most_alone)
    if path is None:
        raise InvalidParameter(
            f"identity must be given: the study has secure sums, and names a long-term key of {name!r}. It is the file that "
            "`privfcd party keygen` wrote"
        )
    key = read_identity(path)
    if raw(key.public_key()) != study.public_keys[name]:
        raise InvalidParameter(
            f"identity {os.path.basename(path)!r} is not the key that the study file names for {name!r}: use that key, or "
            "have the study file changed on all sides"
        )
    return key


def _own_schema(study: Study, given: Any) -> Schema | None:
    """Return the schema by which a party's table is read: its own, which must agree with the study's, or the study's."""
    agreed = study.declared
    if given is None:
        return agreed
    if agreed is None:
        raise InvalidParameter("schema must be left out: the study declares no columns, only their names")
    own = Schema.of(given).only(study.columns)
    if own.digest != agreed.digest:
        lines = [line for line in agreed.differences(own) if "may differ" not in line]
        raise InvalidParameter(f"schema must agree with the study's; study | party: {'; '.join(lines[:10])}")
    return own


def _data_set(ledger: str | os.PathLike[str], wanted: str | None) -> str:
    declared = list(show(ledger)["data_sets"])
    if wanted is None and len(declared) == 1:
        return str(declared[0])
    if wanted not in declared:
        raise InvalidParameter(f"data_set must be one of the ledger's, {declared}, got {wanted!r}")
    return str(wanted)
