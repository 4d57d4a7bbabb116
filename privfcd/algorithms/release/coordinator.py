"""The coordinator's half of a release of moments: plan, charge, rounds. It sees released numbers and no rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.protocol import Empty, Federation
from privfcd.algorithms.release import messages, rules
from privfcd.algorithms.release.plan import COVARIANCE, DIFFERENCES, HISTOGRAM, MEAN, ROUND, SCALES
from privfcd.algorithms.release.rounds import Rounds
from privfcd.algorithms.release.secure import SecureFederation
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.algorithms.release.whitening import Whitening
from privfcd.algorithms.rounds import check_rows, expect, still_there
from privfcd.errors import InvalidParameter
from privfcd.moments import Moments, NoiseTerm
from privfcd.moments.octaves import BINS

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a run.

    Attributes
    ----------
    parts : tuple of Moments
        Of each party that was not lost on the way; none where they stay there.
    rule : dict
        By which constants.
    places : tuple of int
        Where these parties stood among those that the run began with.
    """

    parts: tuple[Moments, ...]
    rule: dict[str, Any] = field(default_factory=dict)
    places: tuple[int, ...] = ()


class ReleaseCoordinator:
    """Runs a release.

    Parameters
    ----------
    settings : ReleaseSettings
        Public options.
    columns : tuple of str
        The variables' names, in the order of the matrices.
    whitening : Whitening
        How rounds are turned into the next one's matrix.
    """

    def __init__(self, settings: ReleaseSettings, columns: tuple[str, ...], whitening: Whitening) -> None:
        settings.check_columns(len(columns))
        self._settings = settings
        self._columns = columns
        self._whitening = whitening
        self._names: tuple[str, ...] = ()
        self._places: list[int] = []

    def offer(self, federation: Federation) -> list[messages.Quote]:
        """Ask every party whether it can take part; nothing is charged anywhere."""
        quotes = expect(federation, messages.Offer(self._settings, self._columns), messages.Quote)
        self._names = tuple(federation.names)
        check_rows([quote.n_rows for quote in quotes], len(self._columns))
        if self._settings.method == "exact" and any(quote.private for quote in quotes):
            private = [name for name, quote in zip(federation.names, quotes, strict=True) if quote.private]
            raise InvalidParameter(f"method must not be 'exact' for tables with budgets, which {private} have")
        if self._settings.method == "preconditioned" and not any(quote.private for quote in quotes):
            raise InvalidParameter("method must not be 'preconditioned' for open tables: 'exact' loses nothing")
        return quotes

    def run(self, federation: Federation, quotes: list[messages.Quote]) -> Outcome:
        """Agree on a plan, charge the parties, do the releases, and return what came of them."""
        shares = self.plan(federation, quotes)
        self.charge(federation)
        return self.release(federation, quotes, shares)

    def plan(self, federation: Federation, quotes: list[messages.Quote]) -> dict[str, float]:
        """Agree on all releases of the run with their shares of mu²; every ledger is asked, none is charged."""
        shares = self._shares(quotes)
        expect(federation, messages.Plan(tuple(shares.items())), Empty)
        return shares

    def charge(self, federation: Federation) -> None:
        """Charge the parties for the plan; no row is read."""
        expect(federation, messages.Charge(), Empty)

    def release(self, federation: Federation, quotes: list[messages.Quote], shares: dict[str, float]) -> Outcome:
        """Do the releases that were charged for, and return what came of them.

        `quotes` are those of all parties that were offered the run. One that is lost on the way is left out of all that
        follows, and its moments of the result; what was planned and charged stays as it was agreed by all.
        """
        rule: dict[str, Any] = {"method": self._settings.method, "rows": [], "mu": [], "shares of mu²": dict(shares)}
        parts: tuple[Moments, ...] = ()
        if not self._settings.send:
            expect(federation, messages.AskOwn(), Empty)
        else:
            parts = self._sent(federation, quotes, shares, rule)
        federation.ask(messages.Finish())
        places = tuple(still_there(federation, self._names))
        if parts:  # who was lost by the last question has no part in the result
            at = dict(zip(self._places, parts, strict=True))
            parts = tuple(at[place] for place in places)
        if isinstance(federation, SecureFederation):
            rule["secure sum"] = federation.about()
            parts = tuple(replace(part, rows=federation.rows) for part in parts)
        rule |= {"rows": [quotes[place].n_rows for place in places], "mu": [quotes[place].mu for place in places]}
        return Outcome(parts, rule, places)

    def _sent(
        self, federation: Federation, quotes: list[messages.Quote], shares: dict[str, float], rule: dict[str, Any]
    ) -> tuple[Moments, ...]:
        """Return the moments of each party that is there at the end, as they were sent."""
        bounds, norm = self._bounds(federation, quotes, shares, rule)
        means = self._means(federation, quotes, bounds, rule)
        if self._settings.method != "preconditioned":
            return self._covariances(federation, quotes, norm, bounds, means, rule)
        offset = self._settings.offset
        if means is not None:
            offset = tuple((rules.pooled_weights(self._here(federation, quotes)) @ means[self._places]).tolist())
        pairs = rules.takes_differences(self._settings, quotes)
        ask = messages.AskHistogram(DIFFERENCES, None, True) if pairs else messages.AskHistogram(SCALES, offset)
        histogram = self._histogram(federation, quotes, ask)
        noise = np.array(rule["mean noise sd"]) if "mean noise sd" in rule else None
        rounds = Rounds(federation, quotes, self._names, self._columns, self._settings, offset, noise, self._whitening)
        parts = rounds.run(histogram, {label: share for label, share in shares.items() if label.startswith(ROUND)})
        rule |= rounds.rule
        self._places = rounds.places
        return parts

    def _here(self, federation: Federation, quotes: list[messages.Quote]) -> list[messages.Quote]:
        """Return the quotes of the parties that are still there, whose places are then in `_places`."""
        self._places = still_there(federation, self._names)
        return [quotes[place] for place in self._places]

    def _shares(self, quotes: list[messages.Quote]) -> dict[str, float]:
        """Return all releases of the run with their shares of mu²."""
        settings, d = self._settings, len(self._columns)
        private = any(quote.private for quote in quotes)
        setup: dict[str, float] = {}
        pairs = rules.takes_differences(settings, quotes)
        most = rules.MOST_HISTOGRAM * (2 if pairs else 1)
        alike, declared = rules.seen(settings, self._alike(quotes)), all(quote.bounds is not None for quote in quotes)
        for label in self._histograms(quotes):
            setup[label] = settings.histogram_share or rules.histogram_share(alike, d, most)
            helps = rules.instead_of_histogram(alike, d, settings, declared)
            rules.check_histogram(alike, d, setup[label], helps)
        if settings.center and not pairs:
            setup[MEAN] = settings.mean_share if private else 0.5
        rest = 1 - math.fsum(setup.values())
        if rest <= 0:
            raise InvalidParameter(f"histogram_share and mean_share leave nothing for moments: {setup}")
        if settings.method == "preconditioned":
            rounds = rules.round_shares(d, settings)
            return setup | {label: share * rest for label, share in rounds.items()}
        return setup | {COVARIANCE: rest}

    def _alike(self, quotes: list[messages.Quote]) -> list[messages.Quote]:
        """Return whose histograms are pooled: all parties', or where nothing is sent the one that sees least."""
        if self._settings.send:
            return quotes
        return [min(quotes, key=lambda quote: quote.n_rows * quote.mu)]

    def _histograms(self, quotes: list[messages.Quote]) -> list[str]:
        """Return which histograms are needed: of the scales for rounds, of undeclared bounds."""
        settings = self._settings
        if settings.method == "exact" or not any(quote.private for quote in quotes):
            return []
        undeclared = any(quote.bounds is None for quote in quotes)
        if settings.method == "preconditioned":
            if rules.takes_differences(settings, quotes):
                return [DIFFERENCES]
            return [HISTOGRAM, SCALES] if undeclared and settings.center else [SCALES]
        return [HISTOGRAM] if undeclared and (settings.row_norm is None or settings.center) else []

    def _bounds(
        self, federation: Federation, quotes: list[messages.Quote], shares: dict[str, float], rule: dict[str, Any]
    ) -> tuple[Array | None, float | None]:
        """Return bounds on |x_j|, and a norm that rows are clipped to, where something says so."""
        norm = self._settings.row_norm
        if not any(quote.private for quote in quotes):
            return None, norm  # exact moments are not clipped, whatever was declared
        declared = [quote.bounds for quote in quotes if quote.bounds is not None]
        if len(declared) == len(quotes):
            return np.max(declared, axis=0), norm
        if HISTOGRAM not in shares:
            return None, norm
        ask = messages.AskHistogram(HISTOGRAM, None)
        histogram = self._histogram(federation, quotes, ask)
        bounds, found = rules.bounds_from(histogram.values, histogram.noise_sd)
        rule["histogram"] = {"noise sd": histogram.noise_sd, "bounds": bounds.tolist(), "row norm": found}
        return bounds, found if norm is None else norm

    def _means(
        self, federation: Federation, quotes: list[messages.Quote], bounds: Array | None, rule: dict[str, Any]
    ) -> Array | None:
        """Return each party's released mean, shape (P, d), where means are to be released; NaN where a party is lost."""
        d = len(self._columns)
        if not self._settings.center or rules.takes_differences(self._settings, quotes):
            return None
        if bounds is None:
            bounds = np.full(d, math.inf)
        answers = expect(federation, messages.AskMean(tuple(bounds.tolist())), messages.Numbers, (d,))
        units = np.where(np.isinf(bounds), 1.0, bounds)
        weights = rules.pooled_weights(self._here(federation, quotes))
        noise = [answer.noise_sd for answer in answers]
        own = max(noise) if self._settings.method != "preconditioned" else math.hypot(*(weights * noise))
        rule["mean noise sd"] = (own * units).tolist()
        values = np.array([answer.values for answer in answers])
        if self._settings.method != "preconditioned":  # whose variance of noise this would change
            values = np.clip(values, -bounds / units, bounds / units)
        means = np.full((len(quotes), d), math.nan)
        means[self._places] = values * units
        return means

    def _covariances(
        self,
        federation: Federation,
        quotes: list[messages.Quote],
        norm: float | None,
        bounds: Array | None,
        means: Array | None,
        rule: dict[str, Any],
    ) -> tuple[Moments, ...]:
        """Ask for one covariance of each party, about its own mean where means were released."""
        offset = self._settings.offset
        if not any(quote.private for quote in quotes):
            norm = math.inf
        elif norm is None:
            assert bounds is not None
            norm = max(rules.norm_of(bounds, off) for off in ([offset] if means is None else means[self._places]))
        ask = messages.AskMoments(COVARIANCE, norm, None, offset, own_mean=means is not None)
        if means is not None and self._settings.sum == "secure":  # no party knows the mean of all: it is told
            ask = messages.AskMoments(COVARIANCE, norm, None, tuple(means[0].tolist()))
        d = len(self._columns)
        answers = expect(federation, ask, messages.Matrix, d)
        public = None if offset is None else np.array(offset)
        here = self._here(federation, quotes)
        off = [public] * len(here) if means is None else list(means[self._places])
        if math.isfinite(norm):
            traces = [float(np.trace(answer.dense())) for answer in answers]
            filled = float(rules.pooled_weights(here) @ traces) / norm**2
            rule |= {"row norm": norm, "share of the row norm": filled}
        return tuple(
            Moments(
                answer.dense(),
                quote.n_rows,
                self._columns,
                (NoiseTerm(answer.scale),) if answer.scale else (),
                mean,
            )
            for answer, quote, mean in zip(answers, here, off, strict=True)
        )

    def _histogram(
        self, federation: Federation, quotes: list[messages.Quote], ask: messages.AskHistogram
    ) -> messages.Numbers:
        """Ask for a histogram, and return that of all rows."""
        shape = len(self._columns) + 1, BINS
        answers = expect(federation, ask, messages.Numbers, shape)
        weights = rules.pooled_weights(self._here(federation, quotes))
        values = np.tensordot(weights, np.array([answer.values for answer in answers]), axes=1)
        return messages.Numbers(values, math.hypot(*(weights * [answer.noise_sd for answer in answers])))
