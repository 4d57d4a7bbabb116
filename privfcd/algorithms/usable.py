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
    together, d = pooled(parts), len(parts[0].columns)
    out = left_out(together) if together.rows > d + 1 else ()
    notes = left_out_notes(out)
    if differ and sizes_known(rule):
        notes += party_notes(parts, rule.get("mean noise sd"), [each.column for each in out])
    return out, notes


def left_out_notes(out: Sequence[LeftOut]) -> list[str]:
    """Return in words which columns were left out, and why."""
    if not out:
        return []
    said = "; ".join(each.relation for each in out[:_LISTED])
    more = f"; and {len(out) - _LISTED} more" if len(out) > _LISTED else ""
    names = ", ".join(repr(each.column) for each in out)
    many = len(out) > 1
    return [
        f"{len(out)} column{'s were' if many else ' was'} left out of the learning: {names}. {said}{more}. Other columns "
        f"determine {'these' if many else 'it'}, or nothing is known of {'them' if many else 'it'}, so that no edge from or "
        "into it can be found. Leave out another column of the set if you want to see this one."
    ]
