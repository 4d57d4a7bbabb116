"""Selections from a table of candidates of which one column at a time changes: which way of drawing serves a stream."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from privfcd.mechanisms.exponential import GumbelMax
from privfcd.mechanisms.noise import Array, NoiseStream
from privfcd.mechanisms.staged import Mask, MaxTable, SelectionTable


class Selector(Protocol):
    """A mechanism that selects one of many scores."""

    @property
    def scale(self) -> float:
        """Scale of its noise."""

    def release(self, scores: Array, stream: NoiseStream) -> int:
        """Return the index of the selected candidate."""


class FlatTable:
    """Selections by any mechanism, among all candidates at once: O(columns rows) each.

    Parameters
    ----------
    mechanism : Selector
        Such as `LaplaceNoisyMax`.
    candidates : ndarray of bool, shape (columns, rows)
        Which may be selected.
    stream : NoiseStream
        Where its noise comes from.
    """

    def __init__(self, mechanism: Selector, candidates: Mask, stream: NoiseStream) -> None:
        self._mechanism, self._stream = mechanism, stream
        self._places = np.flatnonzero(candidates)
        self._scores: Array = np.zeros(candidates.shape)

    def replace(self, scores: Array) -> None:
        """See `SelectionTable.replace`."""
        self._scores[:] = scores

    def replace_column(self, column: int, scores: Array) -> None:
        """See `SelectionTable.replace_column`."""
        self._scores[column] = scores

    def select(self) -> tuple[int, int]:
        """See `SelectionTable.select`."""
        place = self._places[self._mechanism.release(self._scores.ravel()[self._places], self._stream)]
        column, row = divmod(int(place), self._scores.shape[1])
        return column, row


def selection_table(mechanism: Selector, candidates: Mask, stream: NoiseStream) -> SelectionTable:
    """Return a table whose selections follow `mechanism`.

    The exponential mechanism is drawn in two stages where the stream can do that with the same law (see `staged`), the
    maximum without noise from the columns' maxima; anything else among all candidates at once.
    """
    if mechanism.scale == 0:
        return MaxTable(candidates)
    staged = getattr(stream, "table", None)
    if isinstance(mechanism, GumbelMax) and staged is not None:
        table: SelectionTable = staged(candidates, mechanism.scale)
        return table
    return FlatTable(mechanism, candidates, stream)
