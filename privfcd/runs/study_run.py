"""A coordinator's run of a study, over any transport, from a checkpoint where there is one."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from privfcd.algorithms.learner import OnRound
from privfcd.algorithms.results import store_privacy
from privfcd.errors import PartyFailed
from privfcd.runs.method import Method, check_answer
from privfcd.runs.wire.checkpoint import Checkpoint
from privfcd.runs.wire.remote import PartiesLost, RemoteFederation, Transport
from privfcd.runs.wire.study_file import Study

NO_PRIVACY = "NO PRIVACY: the study has no budget. Exact statistics of the parties' rows were used, and some were sent."


@dataclass(frozen=True, eq=False)
class StudyRun:
    """What a run came to.

    Attributes
    ----------
    model : Any
        The fitted estimator. Its `privacy_spent_` is what the study allows each party to spend; `privacy_report_` is None,
        for the parties' reports are with them (`Desk.report`).
    parties : tuple of str
        Whose data the result is of.
    absent : dict of str to str
        Who did not take part, or was lost on the way, and why.
    questions : int
        Messages to each party.
    paper_bytes : int
        By the paper's rule.
    wire_bytes : int
        Of requests and answers as they were sent, without Flower's own.
    seconds : float
        In all.
    seconds_a_question : float
        Mean.
    """

    model: Any
    parties: tuple[str, ...]
    absent: dict[str, str]
    questions: int
    paper_bytes: int
    wire_bytes: int
    seconds: float
    seconds_a_question: float


def run_study(
    study: Study,
    transport: Transport,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    absent: dict[str, str] | None = None,
    timeout: float = 90.0,
    tries: int = 2,
    on_round: OnRound = None,
    log: Callable[[str], None] = lambda line: None,
) -> StudyRun:
    """Run the coordinator's half of a study.

    Before anything is charged, parties that do not answer, refuse, or answer nonsense are left out and the run is begun
    again without them, as long as `min_parties` are there. A party that is lost afterwards keeps what it paid, and the run
    goes on without it, as long as `min_parties` are left: the result is of those, and its notes say so. With fewer the run
    stops, says who and why, and goes on from its checkpoint when called again.

    Parameters
    ----------
    study : Study
    transport : Transport
        The way to the parties.
    checkpoint : path, optional
        Where questions and answers are kept; without one a run that stops cannot go on.
    absent : dict of str to str, optional
        Parties known not to be there, and why.
    timeout : float
        Seconds that a party has for an answer, `tries` times.

    Raises
    ------
    PartyFailed
        Too few parties.
    CheckpointUnusable
        See `Checkpoint`.
    """
    began = time.perf_counter()
    method = Method(study)
    bounds = method.bounds
    missing = dict(absent or {})
    with contextlib.closing(Checkpoint(checkpoint, study.digest)) as kept:
        if kept.begun:
            log(f"going on from the checkpoint with {', '.join(kept.parties)}")
        while True:
            if not kept.begun or (set(kept.parties) & set(missing) and not kept.charged):
                kept.begin(_present(study, missing))
            federation = RemoteFederation(
                transport,
                method.codec,
                study.digest,
                kept,
                charging=method.charging,
                ending=method.ending,
                least=study.least,
                timeout=timeout,
                tries=tries,
                check=lambda question, answer: check_answer(study, bounds, question, answer),
            )
            try:
                model = method.run(federation, on_round)
            except PartiesLost as lost:
                missing.update(lost.lost)
                log(f"nothing is charged yet; left out: {lost}")
                _present(study, missing)
                method = Method(study)
                continue
            break
        parties = tuple(federation.names)
        missing.update({name: f"lost at question {at}: {why}" for name, (at, why) in federation.lost.items()})
    _store_privacy(model, study)
    whose = "" if study.secure else f" The result is of {', '.join(parties)}."  # of secure sums the release says it
    notes = _loss_notes(federation.lost, federation.unheard, whose)
    for line in notes:
        log(line)
    model.notes_ = [*model.notes_, *notes]
    return StudyRun(
        model=model,
        parties=parties,
        absent=missing,
        questions=len(federation.seconds),
        paper_bytes=federation.bytes_exchanged,
        wire_bytes=federation.wire_bytes,
        seconds=time.perf_counter() - began,
        seconds_a_question=fmean(federation.seconds) if federation.seconds else 0.0,
    )


def _store_privacy(model: Any, study: Study) -> None:
    """Note that the parties paid, from their own ledgers and no more than the study says; their reports are with them.

    `privacy_report_` is None here: what noise a party's machine drew, and what is left of its budget, are its owner's.
    """
    store_privacy(model, None)
    model.paid_before_ = False
    if study.epsilon is not None:
        model.privacy_spent_ = study.epsilon, study.delta
        return
    model.privacy_spent_ = math.inf, 0.0
    model.notes_ = [*model.notes_, NO_PRIVACY]


def _loss_notes(lost: dict[str, tuple[int, str]], unheard: dict[str, str], whose: str) -> list[str]:
    """Return in words who was lost after the charge, and who did not hear that the run is over."""
    notes = []
    if lost:
        words = "; ".join(f"{name} at question {at} ({why})" for name, (at, why) in lost.items())
        notes.append(f"Lost after the charge: {words}. What was charged there stays spent.{whose}")
    if unheard:
        words = "; ".join(f"{name} ({why})" for name, why in unheard.items())
        notes.append(
            f"Not told that the run is over: {words}. The result is whole; their ledgers show an unfinished run."
        )
    return notes


def _present(study: Study, missing: dict[str, str]) -> tuple[str, ...]:
    """Return who is there, in the study's order; refuse to go on with too few."""
    present = tuple(name for name in study.parties if name not in missing)
    if len(present) < study.least:
        words = "; ".join(f"{name}: {why}" for name, why in missing.items())
        raise PartyFailed(
            f"the study needs {study.least} parties, {len(present)} can take part; nothing was charged. {words}"
        )
    return present
