"""Which columns of released moments learners should use, and what is to be said of the others and of the parties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privfcd.algorithms.scale_notes import party_notes, sizes_known
from privfcd.moments import Moments, pooled
from privfcd.moments.dependence import LeftOut, left_out, without

_LISTED = 5


def usable(
    parts: Sequence[Moments], rule: Mapping[str, Any] | None = None, *, differ: bool = True
) -> tuple[tuple[Moments, ...], tuple[str, ...]]:
    """Return the parties' moments with the columns set aside that no learner should use, and notes on what was seen.

    Post-processing of what was released. A column is set aside at all parties if others determine it in the sum over them,
    or if nothing is known of it there, see `left_out`.

    Parameters
    ----------
    parts : sequence of Moments
        One for each party.
    rule : mapping, optional
        Of their release, for the noise of means.
    differ : bool
        Whether parties whose sizes or means differ are named: not where they may, as under interventions.
    """
    out, notes = looked_at(parts, rule or {}, differ=differ)
    aside = [each.column for each in out]
    return tuple(without(part, aside) for part in parts), tuple(notes)


def looked_at(
    parts: Sequence[Moments], rule: Mapping[str, Any], *, differ: bool
) -> tuple[tuple[LeftOut, ...], list[str]]:
    """Return the columns that no learner should use, and the notes of `usable`."""
    out = left_out(pooled(parts))
    notes = left_out_notes(out)
    if differ and sizes_known(rule):
        notes += party_notes(parts, rule.get("mean noise sd"), [each.column for each in out])
    return out, notes


def left_out_notes(out: Sequence[LeftOut]) -> list[str]:
    """Return in words which columns were left out, and why."""
    if not out:
        return []
    many = len(out) > 1
    said = (
        f"{len(out)} column{'s were' if many else ' was'} left out of the learning: {_listed(out)}. No edge from or into "
        f"{'them' if many else 'it'} can be found."
    )
    related = [each for each in out if not each.unknown]
    if related:
        relations = "; ".join(each.relation for each in related[:_LISTED])
        more = f"; and {len(related) - _LISTED} more" if len(related) > _LISTED else ""
        said += (
            f" A column that never changes, or that others determine, adds nothing to them: {relations}{more}. To see this "
            "column in the graph, leave out another one of its set."
        )
    unknown = [each for each in out if each.unknown]
    if unknown:
        said += (
            f" Nothing is known of {_listed(unknown)}: the noise in a second moment is as large as the moment. A larger "
            "budget would tell."
        )
    return [said]


def _listed(out: Sequence[LeftOut]) -> str:
    return ", ".join(repr(each.column) for each in out)
