"""Rounds of second moments, each of rows that are multiplied by a matrix made from the rounds before.

In round r the parties multiply their rows by a public A_r and release the second moments of the products, by direction or
clipped in norm. For rows y with E yy' = G near the identity, up to a factor, the mean direction is
E uu' = (I + d / (d + 2) (G - I)) / d to first order for spherical laws, which is solved for G.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.release import messages, rules
from privfcd.algorithms.release.combine import Combined, Round, combine, settled
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.algorithms.release.whitening import Whitening
from privfcd.algorithms.rounds import expect
from privfcd.federation.protocol import Federation, SparseMatrix
from privfcd.moments import Moments
from privfcd.moments.octaves import column_scales, mostly_zeros

Array = NDArray[np.float64]


class Rounds:
    """The coordinator's rounds.

    Parameters
    ----------
    federation : Federation
    quotes : list of Quote
    columns : tuple of str
    settings : ReleaseSettings
    centre : tuple of float, optional
        What is taken off every row; None where the settings say that rows are differences of records.
    whitening : Whitening
    """

    def __init__(
        self,
        federation: Federation,
        quotes: list[messages.Quote],
        columns: tuple[str, ...],
        settings: ReleaseSettings,
        centre: tuple[float, ...] | None,
        whitening: Whitening,
    ) -> None:
        self._federation = federation
        self._quotes = quotes
        self._columns = columns
        self._settings = settings
        self._centre = centre
        self._whitening = whitening
        self._weights = rules.pooled_weights(quotes)
        self._rows = sum(quote.n_rows for quote in quotes)
        self._differences = rules.takes_differences(settings, quotes)
        self.rule: dict[str, Any] = {}

    def run(self, histogram: messages.Numbers, labels: list[str]) -> tuple[Moments, ...]:
        """Do a round for each of `labels`, and return each party's moments."""
        d = len(self._columns)
        found = column_scales(histogram.values[:d], histogram.noise_sd)
        empty = mostly_zeros(histogram.values[:d], histogram.noise_sd)
        if not empty.all():
            found[empty] = np.median(found[~empty])  # any size is a guess; one like the others' does no harm to them
        units = rules.units(found)
        scales, apart = found / units, bool((units != 1).any())
        guess, linear = np.diag(scales**2), np.diag(scales**-rules.FIRST_POWER)
        done: list[Round] = []
        notes = []
        for label in labels:
            done.append(self._round(label, linear, units))
            if len(done) == 1:
                guess = settled(done, self._weights, guess, rules.SETTLING, rules.SETTLING_SDS)
            for _ in range(rules.REFITS):
                combined = self._combined(done, guess, rules.FAR) if apart else combine(done, self._weights, guess)
                structure = self._whitening(combined.moments(self._weights, self._rows, self._columns))
                if apart:
                    structure = structure.capped(rules.MOST_RESIDUAL * scales**2)
                guess, linear = structure.covariance, structure.whitening
            notes.append(
                {
                    "noise": math.hypot(*(self._weights * done[-1].scales)),
                    "weights": int(np.count_nonzero(structure.weights)),
                }
            )
        combined = self._combined(done, guess, rules.FAR if apart else math.inf)
        factor = self._factor(combined, scales)
        self.rule = {"kind": self._settings.kind, "scales": found.tolist(), "rounds": notes, "factor": factor}
        if apart:
            self.rule["units"] = units.tolist()
        doubtful = empty | self._doubtful(combined, scales, factor, histogram.noise_sd)
        if doubtful.any():
            self.rule["doubtful"] = [self._columns[j] for j in np.flatnonzero(doubtful)]
        mean = None if self._centre is None else np.array(self._centre)
        root = math.sqrt(factor) * np.diag(units)
        answers = []
        for weights, quote in zip(np.eye(len(self._quotes)), self._quotes, strict=True):
            part = combined.moments(weights, quote.n_rows, self._columns).carried(root)
            answers.append(
                Moments(part.matrix, part.rows, part.columns, part.noise, mean, differences=self._differences)
            )
        return tuple(answers)

    def _round(self, label: str, linear: Array, units: Array) -> Round:
        """Ask for a round of x / units times `linear`."""
        d = len(self._columns)
        clipped = self._settings.kind == "clipped"
        norm = rules.CLIP_FACTOR * math.sqrt(d) if clipped else None
        matrix = SparseMatrix.of(linear / units[:, None])
        ask = messages.AskMoments(label, norm, matrix, self._centre, self._differences)
        answers = expect(self._federation, ask, messages.Matrix)
        parts = np.array([a.dense(d, name) for name, a in zip(self._federation.names, answers, strict=True)])
        scales = np.array([answer.scale for answer in answers])
        part = 1.0 if clipped else rules.part_with_directions(parts, scales, self._weights)
        return Round(linear, parts / part, scales / part, not clipped)

    def _combined(self, done: list[Round], guess: Array, far: float) -> Combined:
        """Return the rounds solved near `guess`, or nearer to what they say where variances are a factor `far` from it.

        Solving is linear around the guess: a variance that is far below its guess comes out below 0, which no factor allows.
        """
        combined = combine(done, self._weights, guess)
        white = combined.whitened(self._weights, self._rows, self._columns)
        noise = 0.0 if white.noise_sd is None else np.diag(white.noise_sd)
        expected, said = ((done[-1].linear.T @ guess) * done[-1].linear.T).sum(axis=1), np.diag(white.matrix)
        away = (said * far < expected) | (said > expected * far) | (said < 0)
        if (away & (np.abs(said - np.where(said < 0, 0.0, expected)) > rules.SETTLING_SDS * noise)).any():
            guess = settled(done, self._weights, guess, rules.SETTLING, rules.SETTLING_SDS)
            combined = combine(done, self._weights, guess)
        return combined

    def _doubtful(self, combined: Combined, scales: Array, factor: float, noise_sd: float) -> NDArray[np.bool_]:
        """Return of which columns the second moments and whose octaves, released both, do not agree."""
        moments = combined.moments(self._weights, self._rows, self._columns)
        said, expected = np.diag(moments.matrix), scales**2 / factor
        noise = 0.0 if moments.noise_sd is None else np.diag(moments.noise_sd)
        most = rules.DISAGREE * math.exp(rules.DISAGREE_SDS * rules.SCALE_NOISE * noise_sd)
        apart = (said * most < expected) | (said > expected * most)
        sure = np.abs(said - expected) > rules.DISAGREE_SDS * noise
        return np.asarray(apart & sure)

    def _factor(self, combined: Combined, scales: Array) -> float:
        """Return what brings the moments to the columns' scales, by the median over the columns."""
        moments = combined.moments(self._weights, self._rows, self._columns)
        diagonal = np.diag(moments.matrix)
        noise = np.zeros(len(diagonal)) if moments.noise_sd is None else np.diag(moments.noise_sd)
        known = diagonal > np.minimum(2 * noise, np.max(diagonal))
        if self._settings.kind == "clipped" or not known.any():
            return 1.0
        return float(np.exp(np.median(np.log(scales[known] ** 2 / diagonal[known]))))
