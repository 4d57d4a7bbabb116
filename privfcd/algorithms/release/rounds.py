"""Rounds of second moments, each of rows that are multiplied by a matrix made from the rounds before.

In round r the parties multiply their rows by a public A_r, shorten the products to a public norm, and release their second
moments. The norm is chosen so that about as much is lost as there is noise, and what was lost is read from the released
trace. The last two rounds are combined.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.protocol import Federation, SparseMatrix
from privfcd.algorithms.release import messages, rules
from privfcd.algorithms.release.clipping import kept_share, ratio_for
from privfcd.algorithms.release.combine import Combined, Round, alone, combine
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.algorithms.release.whitening import NextRows, Whitening, next_rows
from privfcd.algorithms.rounds import expect, still_there
from privfcd.data.directions import linear_on_grid
from privfcd.data.pairs import SHIFTS
from privfcd.moments import Moments, NoiseTerm
from privfcd.moments.octaves import column_scales, mostly_zeros, nonzero_shares

Array = NDArray[np.float64]


class Rounds:
    """The coordinator's rounds.

    Parameters
    ----------
    federation : Federation
    quotes : list of Quote
    names : tuple of str
        Whose they are. A party that is lost in one of the rounds has no part in those before it either.
    columns : tuple of str
    settings : ReleaseSettings
    offset : tuple of float, optional
        What is taken off every row; None where the settings say that rows are differences of records.
    offset_noise : ndarray of shape (d,), optional
        Standard deviations of the noise in the offset, where it is a released mean.
    whitening : Whitening
    """

    def __init__(
        self,
        federation: Federation,
        quotes: list[messages.Quote],
        names: tuple[str, ...],
        columns: tuple[str, ...],
        settings: ReleaseSettings,
        offset: tuple[float, ...] | None,
        offset_noise: Array | None,
        whitening: Whitening,
    ) -> None:
        self._federation = federation
        self._names = names
        self._columns = columns
        self._offset = offset
        self._offset_noise = offset_noise
        self._whitening = whitening
        self._all = quotes
        self._differences = rules.takes_differences(settings, quotes)
        self._all_seen = rules.seen(settings, quotes)
        self.places = list(range(len(names)))
        self._done: list[Round] = []
        self._leave_out_the_lost()
        self.rule: dict[str, Any] = {}

    def run(self, histogram: messages.Numbers, shares: dict[str, float]) -> tuple[Moments, ...]:
        """Do a round for each label of `shares`, whose values are shares of mu², and return each party's moments."""
        d = len(self._columns)
        scales = column_scales(histogram.values[:d], histogram.noise_sd)
        empty = mostly_zeros(histogram.values[:d], histogram.noise_sd)
        if not empty.all():
            scales[empty] = np.median(scales[~empty])  # any size is a guess; one like the others' does no harm to them
        units = rules.units(scales)
        filled = nonzero_shares(histogram.values[:d], histogram.noise_sd)
        filled[empty] = max(histogram.noise_sd, 1e-3)
        extra = (scales / units) ** 2 * np.maximum(rules.FEW / (filled * d) - 1, 0.0)
        rows = NextRows(np.diag(1 / np.sqrt((scales / units) ** 2 + extra)), float(d), max(d / 3, 1.0), 0.0)
        notes: list[dict[str, Any]] = []
        for label, share in shares.items():
            if self._done:
                known = self._moments(self._combined())
                structure = self._whitening(known)
                rows = next_rows(known, structure, extra, rules.white_noise(self._seen, d) >= rules.LOUD)
                notes[-1] |= {
                    "structure's weights": int(np.count_nonzero(structure.weights)),
                    "kept of what it does not explain": rows.unexplained,
                }
            made, note = self._round(label, share, rows, units)
            self._done.append(made)
            notes.append(note)
        combined = self._combined()
        self.rule = {"scales": scales.tolist(), "rounds": notes}
        if (units != 1).any():
            self.rule["units"] = units.tolist()
        return self._answers(combined, units, empty)

    def _round(self, label: str, share: float, rows: NextRows, units: Array) -> tuple[Round, dict[str, Any]]:
        """Ask for a round of x / units times A."""
        d = len(self._columns)
        lost = min(rules.MOST_LOST, rules.LOST_NOISES * rules.white_noise(self._seen, d) / math.sqrt(share))
        norm = math.sqrt(ratio_for(rows.freedom, lost) * rows.total)
        sent = linear_on_grid(rows.linear / units[:, None])  # what is released is the law under the rounded matrix
        ask = messages.AskMoments(label, norm, SparseMatrix.of(sent), self._offset, self._differences)
        answers = expect(self._federation, ask, messages.Matrix, d)
        self._leave_out_the_lost()
        parts = np.array([answer.dense() for answer in answers])
        scales = np.array([answer.scale for answer in answers])
        trace = float(self._weights @ np.trace(parts, axis1=1, axis2=2))
        kept = kept_share(rows.freedom, norm**2, trace)
        # beyond what was meant to be lost, what is lost in some directions more than in others is an error of its own
        excess = max(0.0, 1 - kept - lost) * max(trace, 0.0) / d
        noise = math.hypot(*(self._weights * scales))
        if excess > 0 and noise > 0:
            scales = scales * (math.hypot(noise, excess) / noise)
        return Round(sent * units[:, None], parts / kept, scales / kept), {"noise": noise, "norm": norm, "kept": kept}

    def _leave_out_the_lost(self) -> None:
        """Cut all that is kept of parties to those that are still there, the rounds that are done too."""
        before, self.places = self.places, still_there(self._federation, self._names)
        if self._done and len(self.places) < len(before):
            keep = [before.index(place) for place in self.places]
            self._done = [Round(one.linear, one.parts[keep], one.scales[keep]) for one in self._done]
        self._quotes = [self._all[place] for place in self.places]
        self._seen = [self._all_seen[place] for place in self.places]
        self._weights = rules.pooled_weights(self._quotes)
        self._rows = sum(quote.n_rows for quote in self._quotes)

    def _combined(self) -> Combined:
        done = self._done
        return alone(done[0]) if len(done) == 1 else combine(done[-2], done[-1], self._weights)

    def _moments(self, combined: Combined) -> Moments:
        return combined.moments(self._weights, self._rows, self._columns)

    def _answers(self, combined: Combined, units: Array, empty: NDArray[np.bool_]) -> tuple[Moments, ...]:
        """Return each party's moments in the columns' units, with all that their noise comes from."""
        pooled = self._moments(combined).carried(np.diag(units))
        unknown = rules.unknown(pooled) | empty
        if unknown.any():
            self.rule["unknown"] = [self._columns[j] for j in np.flatnonzero(unknown)]
        mean = None if self._offset is None else np.array(self._offset)
        # a column whose size was guessed may be cut to any size: noise as large as what was released says so to all readers
        guessed = np.where(empty, np.sqrt(np.maximum(np.diag(pooled.matrix), 0.0)), 0.0)
        root = rules.root(pooled) if self._differences else None
        answers = []
        for weights, quote in zip(np.eye(len(self._quotes)), self._quotes, strict=True):
            part = combined.moments(weights, quote.n_rows, self._columns).carried(np.diag(units))
            matrix, noise = part.matrix, part.noise
            if root is not None and noise:
                noise += (NoiseTerm(1 / math.sqrt(SHIFTS * quote.n_rows), root),)
            if self._offset_noise is not None and self._offset_noise.any():
                matrix = matrix - np.diag(self._offset_noise**2)
                common = math.sqrt(2 / float((self._weights**2).sum()))  # it is the same for all parties
                noise += (NoiseTerm(common, np.diag(self._offset_noise)),)
            if guessed.any() and noise:
                noise += (NoiseTerm(1 / math.sqrt(float((self._weights**2).sum())), np.diag(guessed)),)
            answers.append(Moments(matrix, part.rows, part.columns, noise, mean, differences=self._differences))
        return tuple(answers)
