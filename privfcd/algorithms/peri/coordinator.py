"""The coordinator's half of PERI and I-PERI: it sees regrets, and graphs where parties vote; neither rows nor moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privfcd.algorithms.ges.search import SearchResult
from privfcd.algorithms.peri import messages
from privfcd.algorithms.peri.common import common_search
from privfcd.algorithms.peri.local_graph import repaired
from privfcd.algorithms.peri.orientation import Directed, by_authors_rule, by_regret, by_votes
from privfcd.algorithms.peri.refinement import Refined, refined
from privfcd.algorithms.peri.settings import Settings
from privfcd.algorithms.protocol import Empty, Federation
from privfcd.algorithms.rounds import PartyLost, SameParties, expect
from privfcd.graphs.pdag import Pdag


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a run.

    Attributes
    ----------
    search : SearchResult
        Phase 1.
    refined : Refined or None
        What refinement made of its CPDAG, where it was asked for.
    directed : Directed or None
        Phase 2; None for PERI.
    history : list of dict
        A row a step of either phase.
    messages : int
        Questions to the parties, each answered by all.
    families : int
        Distinct families asked for, in all parts of the run.
    unfinished : str
        Which part of the run ended early or was left out, and why, where a party had no regrets left that were paid for;
        mostly empty.
    """

    search: SearchResult
    refined: Refined | None
    directed: Directed | None
    history: list[dict[str, Any]]
    messages: int
    families: int
    unfinished: str = ""

    @property
    def common(self) -> Pdag:
        """The common CPDAG."""
        if self.directed is not None:
            return self.directed.common
        return self.search.cpdag if self.refined is None else self.refined.cpdag

    @property
    def graph(self) -> Pdag:
        """The final graph."""
        return self.common if self.directed is None else self.directed.graph


class PERICoordinator:
    """Runs both phases.

    Parameters
    ----------
    settings : Settings
        Public options.
    columns : tuple of str
        The variables' names.
    """

    def __init__(self, settings: Settings, columns: tuple[str, ...]) -> None:
        settings.check_columns(len(columns))
        self._settings = settings
        self._columns = columns

    def run(self, federation: Federation) -> Outcome:
        """Search the common CPDAG, direct its edges, and return both.

        Where a party is lost on the way, all begins again with the others: regrets of different parties say nothing about
        each other, and those who stay answer from what they have.
        """
        while True:
            try:
                return self._run(SameParties(federation))
            except PartyLost:
                continue

    def _run(self, federation: Federation) -> Outcome:
        settings, d = self._settings, len(self._columns)
        quotes = expect(federation, messages.Offer(settings, self._columns), messages.Quote)
        search = common_search(federation, d, settings)
        used_up = search.used_up
        better = refined(search.cpdag, federation) if settings.refine and used_up is None else None
        common = search.cpdag if better is None else better.cpdag
        if better is not None:
            used_up = better.used_up
        directed = None
        if used_up is None or settings.orientation == "votes":  # votes need no regrets
            directed = self._direct(federation, repaired(common), [quote.n_rows for quote in quotes])
        expect(federation, messages.Finish(), Empty)
        history = [
            {"phase": 1, "step": kind, "nodes": self._names((x, y)), "for": None, "against": None}
            for kind, x, y in search.steps
        ]
        if directed is not None:
            history += [
                {"phase": 2, "step": kind, "nodes": self._names(nodes), "for": support, "against": opposition}
                for kind, nodes, support, opposition in directed.steps
            ]
        asked = search.messages + (better.messages if better else 0) + (directed.messages if directed else 0)
        families = search.families + (better.families if better else 0) + (directed.families if directed else 0)
        return Outcome(search, better, directed, history, asked, families, self._unfinished(search, better, directed))

    def _unfinished(self, search: SearchResult, better: Refined | None, directed: Directed | None) -> str:
        """Return in a sentence what was left undone; nothing where all was done."""
        settings = self._settings
        common = "the search of the common CPDAG"
        refining = "the refinement of the common CPDAG"
        directions = "the directions by regrets"
        if search.used_up is not None:
            why, early = search.used_up, common
        elif better is not None and better.used_up is not None:
            why, early = better.used_up, refining
        elif directed is not None and directed.used_up is not None:
            why, early = directed.used_up, directions
        else:
            return ""
        out = [refining] if settings.refine and better is None else []
        out += [directions] if settings.orientation not in (None, "votes") and directed is None else []
        left = f"; {' and '.join(out)} {'was' if out == [refining] else 'were'} left out" if out else ""
        return f"{early[0].upper()}{early[1:]} ended early{left}: {why}"

    def _direct(self, federation: Federation, common: Pdag, rows: list[int]) -> Directed | None:
        match self._settings.orientation:
            case "votes":
                return by_votes(common, federation, self._settings.min_support, self._settings.missing_edges)
            case "regret":
                return by_regret(common, federation, rows)
            case "authors":
                return by_authors_rule(common, federation, self._settings.worst)
        return None

    def _names(self, nodes: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(self._columns[node] for node in nodes)
