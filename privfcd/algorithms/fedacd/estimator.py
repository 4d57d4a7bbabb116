"""FedACD and its private version as one estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from privfcd import checks
from privfcd.accounting.privacy_report import PrivacyReport, report_on
from privfcd.algorithms.base import Estimator
from privfcd.algorithms.fedacd.coordinator import FedACDCoordinator, LayerRecord
from privfcd.algorithms.fedacd.party import FedACDParty
from privfcd.algorithms.fedacd.settings import Settings
from privfcd.algorithms.fedacd.votes import CountedArcs
from privfcd.algorithms.inputs import aligned, checked_tables, moments_given
from privfcd.algorithms.release import release_moments
from privfcd.algorithms.results import store_graph, store_privacy
from privfcd.data.encoding import CONSTANT, Contrasts
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter
from privfcd.federation.local import LocalFederation
from privfcd.moments import Moments, pooled

COMBINE = ("auto", "vote", "sum")

Levels = int | Sequence[int | None] | Mapping[str, int | None]


class FedACD(Estimator):
    """Federated causal discovery by votes on the edges that each party can judge.

    Parties test independence on their own rows, layer by layer; of the edges that a party would remove it masks those
    that it is least sure of, and the federation keeps what most of the others keep. Then each orients the skeleton, and
    their arcs are counted into a DAG. The result does not depend on the order of columns or parties.

    On tables with a budget one release of second moments per party pays for everything, and tests, masks and orientation are
    post-processing that knows the noise. Discrete columns are encoded record by record first, so that their second
    moments are all pairs of marginals.

    Parameters
    ----------
    levels : int, sequence or mapping of column to int, optional
        Declared number of levels of each discrete column, public, values 0, 1, ...; None for continuous columns. All
        columns must be of one kind.
    alpha : float
        Level of the tests, in (0, 1).
    largest : int
        Size of the largest conditioning set.
    mask_rate : float
        r in [0, 1]: the share of its removals, those with the smallest p-values, on which a party does not vote. 0 is
        plain voting; a single voter masks nothing.
    quorum : float
        In [0, 1]: the share of parties that must have an edge in their DAGs for it to enter the result.
    combine : str
        `"vote"`: parties vote. `"sum"`: their moments are added up, and the sum is the only voter. `"auto"`: vote where
        answers are exact, sum where they are noisy: noise that is averaged first misleads fewer tests.
    variant : str
        `"stable"`, or `"reference"`: the authors' order-dependent skeleton phase, for comparison.
    per_cell : float
        Tests of discrete columns with fewer rows for each cell leave the edge.
    sample_size : float
        Equivalent sample size of the BDeu score.
    release : str
        What tables with a budget release: `"preconditioned"`, `"covariance"` or `"auto"`.
    center : bool
        Whether continuous columns' means are taken off first; paid for, on tables with a budget.
    row_norm, epsilon, delta : float, optional
        Of `release_moments`.

    Attributes
    ----------
    causal_graph_ : networkx.DiGraph
        Acyclic; `weight` is the number of parties that have the arc.
    adjacency_matrix_ : ndarray of shape (d, d)
        Entry [i, j] is the number of parties with i -> j, for the arcs of the graph.
    skeleton_ : ndarray of bool, shape (d, d)
        After the last layer.
    votes_ : CountedArcs
        Support, ties, and arcs that were turned to avoid cycles.
    layers_ : list of LayerRecord
    history_ : list of dict
        A row a layer.
    moments_ : Moments or None
        What was released, of all rows.
    rule_, bytes_exchanged_, privacy_report_, privacy_spent_, feature_names_in_, n_features_in_
        As of the other estimators.
    """

    def __init__(
        self,
        levels: Levels | None = None,
        alpha: float = 0.01,
        largest: int = 3,
        mask_rate: float = 0.6,
        quorum: float = 0.0,
        combine: str = "auto",
        variant: str = "stable",
        per_cell: float = 5.0,
        sample_size: float = 10.0,
        release: str = "auto",
        center: bool = True,
        row_norm: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> None:
        self.levels = levels
        self.alpha = alpha
        self.largest = largest
        self.mask_rate = mask_rate
        self.quorum = quorum
        self.combine = combine
        self.variant = variant
        self.per_cell = per_cell
        self.sample_size = sample_size
        self.release = release
        self.center = center
        self.row_norm = row_norm
        self.epsilon = epsilon
        self.delta = delta

    def fit(self, source: Sequence[PrivateTable] | Moments | Sequence[Moments]) -> Self:
        """Learn the graph from tables or moments, one for each party.

        Moments of discrete columns are those of `Contrasts(levels)`, as `moments_` of an earlier fit.

        Raises
        ------
        BudgetExceeded
            A party's budget does not allow the run; no party was charged.
        InvalidParameter, InvalidTable
            What is wrong, and with which party.
        """
        if self.combine not in COMBINE:
            raise checks.refuse("combine", self.combine, "one of " + ", ".join(COMBINE))
        if not isinstance(self.center, bool):
            raise checks.refuse("center", self.center, "True or False")
        parts = moments_given(source)
        if parts is not None:
            self._refuse_release_options()
            names = tuple(self._variables(parts[0].columns))
            settings = self._settings(names)
            outcome, federation = self._vote(self._own(parts, names), names, settings)
            reports: list[PrivacyReport] | None = None
            sent = federation.bytes_exchanged
            self.rule_: dict[str, Any] = {}
        else:
            tables = checked_tables(source)
            names = tables[0].columns
            if CONSTANT in names:
                raise checks.refuse("columns", list(names), f"names other than {CONSTANT!r}")
            settings = self._settings(names)
            exact = all(table.open for table in tables)
            if exact and settings.levels is not None and self.combine != "sum":
                outcome, federation, reports = self._vote_on_rows(tables, names, settings)
                self.moments_: Moments | None = None
                self.rule_, sent = {}, federation.bytes_exchanged
            else:
                parts, reports, released = self._release(tables, names, settings, exact)
                outcome, federation = self._vote(parts, names, settings)
                sent = released + federation.bytes_exchanged
        self._store(outcome, names, reports, sent)
        return self

    def _settings(self, names: Sequence[str]) -> Settings:
        return Settings(
            alpha=self.alpha,
            largest=self.largest,
            mask_rate=self.mask_rate,
            quorum=self.quorum,
            variant=self.variant,
            per_cell=self.per_cell,
            sample_size=self.sample_size,
            levels=declared_levels(self.levels, names),
        )

    def _variables(self, columns: Sequence[str]) -> list[str]:
        """Return the variables of moments: their columns, or the discrete ones that these encode."""
        if self.levels is None:
            return list(columns)
        return list(dict.fromkeys(column.rpartition(":")[0] for column in columns if column != CONSTANT))

    def _refuse_release_options(self) -> None:
        if self.release != "auto":
            raise checks.refuse("release", self.release, "'auto' for Moments, which were released before")
        for name in ("row_norm", "epsilon", "delta"):
            if getattr(self, name) is not None:
                raise checks.refuse(name, getattr(self, name), "left out for Moments, which were released before")

    def _release(
        self, tables: list[PrivateTable], names: tuple[str, ...], settings: Settings, exact: bool
    ) -> tuple[list[Moments], list[PrivacyReport], int]:
        """Release moments of the tables, of encoded ones for discrete columns."""
        options: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, "row_norm": self.row_norm}
        method = None if self.release == "auto" else self.release
        center = self.center
        if settings.levels is not None:
            encoding = Contrasts(settings.levels)
            tables = [table.reordered(names).encoded(encoding) for table in tables]
            center = False
            if not exact and method in (None, "covariance"):
                method = "covariance"
                options["row_norm"] = encoding.row_norm if self.row_norm is None else self.row_norm
        stay = exact and self.combine != "sum"
        release = release_moments(tables, method=method, send=not stay, center=center, **options)
        self.rule_ = release.rule
        parts = self._own(list(release.parts), names)
        self.moments_ = None if stay else release.moments
        return parts, release.privacy_report, release.bytes_exchanged

    def _own(self, parts: list[Moments], names: tuple[str, ...]) -> list[Moments]:
        """Return each voter's moments: the parties', or their sum."""
        noisy = any(not part.exact for part in parts)
        if self.combine == "sum" or (self.combine == "auto" and noisy):
            parts = [pooled(parts)]
        self.moments_ = parts[0] if len(parts) == 1 else None
        return parts

    def _vote(self, parts: list[Moments], names: tuple[str, ...], settings: Settings) -> tuple[Any, LocalFederation]:
        order = sorted(names)
        sorted_settings = _reordered(settings, names, order)
        if len(parts) == 1:  # a mask leaves the answer to others, and there are none
            sorted_settings = replace(sorted_settings, mask_rate=0.0)
        if settings.levels is None:
            sources = [aligned(part, tuple(order)) for part in parts]
        else:
            columns = Contrasts(sorted_settings.levels or ()).columns(tuple(order))
            sources = [aligned(part, columns) for part in parts]
        parties = [FedACDParty(source, f"party-{index}") for index, source in enumerate(sources, start=1)]
        federation = LocalFederation(parties)
        return FedACDCoordinator(sorted_settings, tuple(order)).run(federation), federation

    def _vote_on_rows(
        self, tables: list[PrivateTable], names: tuple[str, ...], settings: Settings
    ) -> tuple[Any, LocalFederation, list[PrivacyReport]]:
        order = sorted(names)
        parties = [FedACDParty(table, table.name) for table in tables]
        federation = LocalFederation(parties)
        outcome = FedACDCoordinator(_reordered(settings, names, order), tuple(order)).run(federation)
        reports = []
        for party, table in zip(parties, tables, strict=True):
            assert party.reservation is not None
            declared = {"rows": table.n_rows, "columns": list(table.columns), "levels": list(settings.levels or ())}
            reports.append(
                report_on(
                    party.reservation,
                    delta=None,
                    relation=table.relation,
                    noise="none: exact answers",
                    secure=False,
                    declared=declared,
                    assumptions=(),
                )
            )
        return outcome, federation, reports

    def _store(self, outcome: Any, names: tuple[str, ...], reports: list[PrivacyReport] | None, sent: int) -> None:
        place = np.argsort(np.argsort(np.array(names, dtype=object)))
        back = np.ix_(place, place)
        weights = np.where(outcome.arcs.matrix, np.maximum(outcome.arcs.support, outcome.arcs.support.T), 0)
        store_graph(self, weights[back].astype(np.float64), 0.0, names)
        store_privacy(self, reports)
        self.skeleton_ = outcome.skeleton[back]
        own = np.argsort(place)
        self.votes_: CountedArcs = replace(
            outcome.arcs,
            matrix=outcome.arcs.matrix[back],
            support=outcome.arcs.support[back],
            turned=[(int(own[i]), int(own[j])) for i, j in outcome.arcs.turned],
        )
        self.layers_: list[LayerRecord] = outcome.layers
        self.history_ = [
            {
                "layer": record.size,
                "edges before": record.before,
                "edges": record.after,
                "masked": record.masked,
                "bytes": record.bytes_exchanged,
                "seconds": record.seconds,
            }
            for record in outcome.layers
        ]
        self.bytes_exchanged_ = sent


def declared_levels(levels: Levels | None, names: Sequence[str]) -> tuple[int, ...] | None:
    """Return a number of levels for each column, or None where all are continuous.

    Raises
    ------
    InvalidParameter
        Some columns are discrete and others continuous, or a column has no declaration.
    """
    if levels is None:
        return None
    values: list[Any]
    if isinstance(levels, Mapping):
        if sorted(levels) != sorted(names):
            raise checks.refuse("levels", dict(levels), f"one number for each of the columns {list(names)}")
        values = [levels[name] for name in names]
    elif isinstance(levels, int) and not isinstance(levels, bool):
        values = [levels] * len(names)
    elif isinstance(levels, Sequence) and not isinstance(levels, str):
        values = list(levels)
    else:
        raise checks.refuse("levels", levels, "a number, one for each column, or None for continuous columns")
    if len(values) != len(names):
        raise InvalidParameter(f"levels must have one number for each of {len(names)} columns, got {len(values)}")
    continuous = [name for name, value in zip(names, values, strict=True) if value is None]
    if len(continuous) == len(names):
        return None
    if continuous:
        raise InvalidParameter(
            f"levels must be given for all columns or for none, got none for {continuous}: discrete and continuous columns "
            "together are not supported; cut continuous ones at public values, or leave columns out"
        )
    return tuple(checks.count(f"levels of {name!r}", value, least=2) for name, value in zip(names, values, strict=True))


def _reordered(settings: Settings, names: Sequence[str], order: Sequence[str]) -> Settings:
    if settings.levels is None:
        return settings
    by_name = dict(zip(names, settings.levels, strict=True))
    return replace(settings, levels=tuple(by_name[name] for name in order))
