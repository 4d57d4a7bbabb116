"""A draft of a data protection impact assessment for a study, from what the study file and a plan say.

What only an institution can say (purpose, legal basis, who decides, how long files are kept) is left empty and marked. What
the code guarantees is filled in from the study and from a plan of its run on tables without rows, so that it is that of the
code that will run. The chapters are those of Article 35(7) of Regulation (EU) 2016/679: a description of the processing,
its necessity, the risks, the measures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privfcd import checks
from privfcd.accounting import (
    REPLACE_ONE,
    Budget,
    GaussianDpEvent,
    epsilon_of,
    gaussian_mu,
    group_event,
    true_positive_rate,
)
from privfcd.accounting.conversions import gdp_to_epsilon
from privfcd.data.private import PrivateTable
from privfcd.ledger.privacy_report import ROWS, rounded_up
from privfcd.markup import bullets, escape, paragraph, table
from privfcd.runs.method import study_learner
from privfcd.runs.plan import plan_run
from privfcd.runs.wire.study_file import Study

FILL = "[to be filled in by the institution]"
FALSE_POSITIVES = 0.01

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}"
    "table{border-collapse:collapse;margin:.5rem 0}td,th{border:1px solid #bbb;padding:.3rem .6rem;text-align:left;"
    "vertical-align:top}h2{margin-top:2rem}.fill{background:#fff3bf;padding:.1rem .3rem}"
)


@dataclass(frozen=True)
class Chapter:
    """One chapter: sentences, and a table where there is one.

    Attributes
    ----------
    key, title : str
    text : sequence of str
        Sentences; `FILL` stands where only the institution can say it.
    header, rows : sequences of str
        A table.
    """

    key: str
    title: str
    text: Sequence[str]
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def impact_assessment(study: Study, rows: Sequence[int]) -> list[Chapter]:
    """Return the chapters of a draft for a study.

    Nothing is read and nothing is charged: the plan runs on tables without rows.

    Parameters
    ----------
    study : Study
    rows : sequence of int
        Public number of records of each party, in the study's order; one number stands for all.

    Raises
    ------
    InvalidParameter
        A number of rows is missing, or the study's method does not run on such tables.
    BudgetExceeded
        The study's budget does not allow its run.
    """
    counts = [checks.count("rows", each) for each in rows]
    if len(counts) == 1:
        counts *= len(study.parties)
    if len(counts) != len(study.parties):
        raise checks.refuse("rows", list(rows), f"one number, or {len(study.parties)}: one for each party")
    return [
        *_description(study, counts),
        _leaving(study, counts),
        _promise(study, counts),
        *_judgement(study),
    ]


def _description(study: Study, counts: Sequence[int]) -> list[Chapter]:
    columns = [(name, FILL) for name in study.columns]
    parties = [(name, f"{count:,}", FILL) for name, count in zip(study.parties, counts, strict=True)]
    return [
        Chapter(
            "purpose",
            "Purpose and legal basis",
            [
                f"The study {study.name!r} learns which measurements depend on which (a causal graph) from the tables of "
                f"{len(study.parties)} parties, without moving the tables. Method: {study.method}.",
                f"Why this graph is needed, and for whom: {FILL}",
                f"Legal basis, and consent or its waiver: {FILL}",
                f"Controllers, processors, data protection officers: {FILL}",
            ],
        ),
        Chapter(
            "data",
            "Categories of data",
            [
                "One record is one row of a party's table. These columns are used and no others.",
                f"Whose data these are, and whether persons are vulnerable: {FILL}",
                f"How identifiers were removed before the table was made: {FILL}",
            ],
            ("column", "category of data (for example health, Article 9)"),
            columns,
        ),
        Chapter(
            "recipients",
            "Parties and recipients",
            [
                "Rows stay on each party's own machine. The coordinator sees the released numbers below. Every party may "
                "see the result: the graph, its weights and the report.",
                f"Who runs the coordinator, in which country, under which contract: {FILL}",
                f"Where the result is published: {FILL}",
            ],
            ("party", "records (public)", "contact"),
            parties,
        ),
    ]


def _leaving(study: Study, counts: Sequence[int]) -> Chapter:
    released: dict[tuple[str, ...], list[str]] = {}
    learner = study_learner(study)
    for party in plan_run(learner, _tables(study, counts), rehearse=False).parties:
        for part in party.parts:
            key = (part.label, str(part.count), part.noise)
            released.setdefault(key, []).append(party.party)
    everywhere = len(study.parties)
    lines = [
        (*key, "each" if len(names) == everywhere else ", ".join(names)) for key, names in released.items()
    ]
    public = "the number of records, the names of the columns"
    if study.bounds is not None:
        public += ", bounds on the values (declared, not computed from rows)"
    return Chapter(
        "leaving",
        "What leaves each party",
        [
            f"Public, and sent as they are: {public}.",
            "Released from rows: the following, and nothing else. Each release is paid for from the party's budget before a "
            "row is read. Where the noise is 'none: exact', exact statistics leave the party.",
        ],
        ("release", "how many", "noise", "party"),
        lines,
    )


def _tables(study: Study, counts: Sequence[int]) -> list[PrivateTable]:
    """Return tables of zeros that stand for the parties': a plan never reads a row."""
    budget = None if study.epsilon is None else Budget(epsilon=study.epsilon, delta=study.delta or 0.0)
    return [
        PrivateTable(
            np.zeros((count, len(study.columns))), list(study.columns), name=name, budget=budget, bounds=study.bounds
        )
        for name, count in zip(study.parties, counts, strict=True)
    ]


def _promise(study: Study, counts: Sequence[int]) -> Chapter:
    if study.epsilon is None:
        return Chapter(
            "promise",
            "The promise for a person",
            ["NONE. The study has no budget: exact statistics of rows are used, and some are sent (epsilon = infinity)."],
        )
    epsilon, delta = study.epsilon, study.delta or 0.0
    factor = rounded_up(math.exp(min(epsilon, 700.0)), 3)
    text = [
        f"Differential privacy with epsilon = {epsilon:g} and delta = {delta:g} for each party's records: if one record had "
        f"been another one, every outcome of the study would have been at most {factor} times as likely, but for a "
        f"probability of {rounded_up(delta, 3)}. This holds whatever a recipient knows already, and for all time.",
    ]
    if delta:
        mu = gaussian_mu(epsilon, delta)
        caught = true_positive_rate(GaussianDpEvent(1 / mu), FALSE_POSITIVES)
        several = epsilon_of(group_event(GaussianDpEvent(1 / mu), ROWS), delta)
        assert gdp_to_epsilon(mu, delta) <= epsilon
        text += [
            f"If all noise is Gaussian: somebody who guesses whether a certain record is in the table, and may be wrong "
            f"{100 * FALSE_POSITIVES:g} % of the time where it is not, is right at most {100 * caught:.3g} % of the time "
            "where it is.",
            f"A person with {ROWS} records in one table: epsilon = {rounded_up(several, 4)} at the same delta, if all noise "
            "is Gaussian.",
        ]
        loose = [name for name, count in zip(study.parties, counts, strict=True) if delta * count >= 1]
        if loose:
            text.append(
                f"WARNING: delta is at least 1/n for {', '.join(loose)}. A release that publishes one record drawn by "
                "chance would keep such a promise. Choose a delta well below 1/n."
            )
    else:
        text.append(f"A person with {ROWS} records in one table: epsilon = {rounded_up(ROWS * epsilon, 4)}.")
    text.append(f"Neighbours: tables that differ in one record ({REPLACE_ONE.name.lower().replace('_', ' ')}).")
    return Chapter("promise", "The promise for a person", text)


def _judgement(study: Study) -> list[Chapter]:
    not_covered = [
        "What is true of people in general may be learnt, and applied to a person.",
        "Several records of one person, and the same person at two parties: costs add up, see the promise.",
        "Other releases from the same records: they add up if the same ledger pays for them; it does not know of others.",
        "The number of records, the columns' names and declared bounds are public.",
        "Who breaks into a party's machine sees its table. Time and memory that a run takes are not covered.",
    ]
    measures = [
        ("No budget is exceeded", "A ledger on the party's disk is charged before a row is read, or refuses."),
        ("Noise cannot be removed", "Noise is drawn from the operating system's randomness on the party's own machine."),
        ("Nothing but the study is answered", "A party answers what follows from the study file that its owner has seen."),
        ("Transport", "TLS and keys of the parties' own; see the documentation, 'Security'."),
        ("Unneeded data", f"Only {len(study.columns)} columns are read. {FILL}"),
    ]
    risks = [
        ("A person is recognised from what was released", "bounded by the promise above", FILL),
        ("A party's file, ledger or key is stolen", "outside of this software", FILL),
        ("A false arrow leads to a wrong treatment", "the result states how far it stands clear of noise", FILL),
        ("The coordinator asks for more in a later study", "every study is charged to the same ledger", FILL),
    ]
    return [
        Chapter("not-covered", "What the promise does not cover", not_covered),
        Chapter("measures", "Measures", ["These are built in:"], ("aim", "how"), measures),
        Chapter(
            "retention",
            "Retention",
            [
                f"The party's table: {FILL}",
                f"The party's ledger: as long as the records exist, for it knows what was spent. {FILL}",
                f"The coordinator's checkpoint (messages with noise): {FILL}",
                f"The result and its report: {FILL}",
            ],
        ),
        Chapter("risks", "Residual risks", [], ("risk", "what limits it", "likelihood and severity"), risks),
        Chapter(
            "opinion",
            "Necessity, proportion, opinion",
            [
                f"Why fewer columns, a smaller budget or fewer parties would not do: {FILL}",
                f"Opinion of the data protection officer: {FILL}",
                f"Opinion of the persons concerned or their representatives: {FILL}",
                f"Decision, date, signature: {FILL}",
            ],
        ),
    ]


def as_json(study: Study, chapters: Sequence[Chapter]) -> dict[str, Any]:
    """Return the draft as plain data; `to_fill` counts what only the institution can say."""
    made = [
        {
            "key": chapter.key,
            "title": chapter.title,
            "text": list(chapter.text),
            "table": [dict(zip(chapter.header, row, strict=True)) for row in chapter.rows],
        }
        for chapter in chapters
    ]
    return {"study": study.name, "digest": study.digest, "chapters": made, "to_fill": str(made).count(FILL)}


def as_html(study: Study, chapters: Sequence[Chapter]) -> str:
    """Return the draft as a page of its own that loads nothing."""
    parts = [
        f"<h1>Data protection impact assessment: draft for {escape(study.name)}</h1>",
        paragraph(
            f"Made from the study file (digest {study.digest[:16]}) before anything was read. Marked fields are for the "
            "institution. This draft is no legal advice."
        ),
    ]
    for number, chapter in enumerate(chapters, 1):
        parts.append(f'<h2 id="{escape(chapter.key)}">{number}. {escape(chapter.title)}</h2>')
        parts.append(bullets(chapter.text) if len(chapter.text) > 1 else "".join(map(paragraph, chapter.text)))
        if chapter.rows:
            parts.append(table(chapter.rows, chapter.header))
    body = "\n".join(parts).replace(escape(FILL), f'<span class="fill">{escape(FILL)}</span>')
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Impact assessment: {escape(study.name)}</title><style>{STYLE}</style></head>\n"
        f"<body>\n{body}\n</body></html>\n"
    )
