"""What is known of each edge under the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.graphs.interchange import share
from privfcd.markup import card, paragraph, table

if TYPE_CHECKING:
    import networkx as nx

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class EdgeStability:
    """How often each edge is found under other draws of the noise, and how often the noise alone makes one.

    What `frequency` means depends on the release; `method` says it in words. All of it is about the noise: the chance in
    which records a party happens to have is not in it.

    Attributes
    ----------
    columns : tuple of str
        Names, in the order of the matrices.
    frequency : ndarray of shape (d, d)
        Share of the runs with i -> j, directed.
    adjacency : ndarray of shape (d, d)
        Symmetric: share of the runs in which i and j are adjacent, whatever the direction.
    weight_low, weight_high : ndarray of shape (d, d)
        5 % and 95 % quantiles of the weight of i -> j over the runs, 0 where a run lacks the edge; nan where the learner
        has no weights. For an edge of a final refit those of the refit's noise.
    noise_alone : ndarray of shape (d, d) or None
        Share of runs on noise alone, without any dependence between the columns, that have i -> j. Of rounds without
        such runs: the chance that the noise of the final refit makes i -> j out of a weight of 0, if it is chosen at all.
    noise_alone_edges : float or None
        Mean number of edges in these runs; None without any.
    draws : int
        Number of runs.
    method : str
        How it was made, and what `frequency` means.
    noise_alone_adjacency : ndarray of shape (d, d) or None
        Symmetric: share of the runs on noise alone in which i and j are adjacent.
    noise_alone_weight : float or None
        The size that the largest weight of a run on noise alone stays below in 95 % of them; None where the learner has
        no weights.
    kind : "reruns" or "rounds"
        What the runs above are: fits with fresh noise, or the last rounds of the run itself. Rounds follow from one
        another: their share is no probability.
    """

    columns: tuple[str, ...]
    frequency: Array
    adjacency: Array
    weight_low: Array
    weight_high: Array
    noise_alone: Array | None
    noise_alone_edges: float | None
    draws: int
    method: str
    noise_alone_adjacency: Array | None = None
    noise_alone_weight: float | None = None
    kind: Literal["reruns", "rounds"] = "reruns"

    def rows(self, graph: nx.DiGraph[str]) -> list[dict[str, Any]]:
        """Return one row for each edge of a graph over the columns, the surest first.

        An undirected edge (two arcs with `undirected` True) is one row, whose `frequency` is that of the adjacency.

        Parameters
        ----------
        graph : networkx.DiGraph
            Such as a model's `causal_graph_`.

        Returns
        -------
        list of dict
            from, to, undirected, weight (None without one), frequency, adjacency, low, high (None without weights),
            noise_alone (None where it was not computed).

        Raises
        ------
        InvalidParameter
            A node is not one of the columns.
        """
        place = {name: k for k, name in enumerate(self.columns)}
        unknown = [node for node in graph if node not in place]
        if unknown:
            raise checks.refuse("graph", unknown[0], "a graph over the columns " + ", ".join(self.columns))
        rows = []
        for cause, effect, attributes in graph.edges(data=True):
            undirected = bool(attributes.get("undirected"))
            i, j = place[cause], place[effect]
            if undirected and i > j:
                continue
            weight = attributes.get("weight")
            alone = self.noise_alone_adjacency if undirected else self.noise_alone
            rows.append(
                {
                    "from": cause,
                    "to": effect,
                    "undirected": undirected,
                    "weight": None if weight is None or undirected else float(weight),
                    "frequency": float((self.adjacency if undirected else self.frequency)[i, j]),
                    "adjacency": float(self.adjacency[i, j]),
                    "low": None if undirected else _number(self.weight_low[i, j]),
                    "high": None if undirected else _number(self.weight_high[i, j]),
                    "noise_alone": None if alone is None else float(alone[i, j]),
                }
            )
        return sorted(rows, key=lambda row: (-row["frequency"], place[row["from"]], place[row["to"]]))

    def shares(self, graph: nx.DiGraph[str]) -> dict[tuple[str, str], float]:
        """Return (from, to) with the frequency of each edge of `graph`, as pictures want it; see `rows`."""
        return {(row["from"], row["to"]): row["frequency"] for row in self.rows(graph)}

    def as_dict(self) -> dict[str, Any]:
        """Return the result for JSON: what concerns all edges, and each ordered pair that any run joined."""
        alone, near = (
            np.zeros_like(self.frequency) if known is None else known
            for known in (self.noise_alone, self.noise_alone_adjacency)
        )
        pairs = [
            {
                "from": self.columns[i],
                "to": self.columns[j],
                "frequency": float(self.frequency[i, j]),
                "adjacency": float(self.adjacency[i, j]),
                "low": _number(self.weight_low[i, j]),
                "high": _number(self.weight_high[i, j]),
                "noise_alone": None if self.noise_alone is None else float(alone[i, j]),
                "noise_alone_adjacency": None if self.noise_alone_adjacency is None else float(near[i, j]),
            }
            for i, j in np.argwhere((self.adjacency > 0) | (alone > 0) | (near > 0)).tolist()
        ]
        return {
            "columns": list(self.columns),
            "kind": self.kind,
            "draws": self.draws,
            "method": self.method,
            "noise_alone_edges": self.noise_alone_edges,
            "noise_alone_weight": self.noise_alone_weight,
            "pairs": pairs,
        }

    def _repr_html_(self) -> str:
        def shown(value: float | None) -> str:
            return "" if value is None else f"{value:.3g}"

        found = {(pair["from"], pair["to"]): pair for pair in self.as_dict()["pairs"]}
        pairs = []
        for (cause, effect), pair in found.items():
            directed = pair["frequency"] > 0 or pair["noise_alone"]
            turned = (effect, cause) in found and found[effect, cause]["frequency"] > 0
            if directed or (not turned and self.columns.index(cause) < self.columns.index(effect)):
                pairs.append((pair, "→" if directed else "–"))
        pairs.sort(key=lambda shown: (-shown[0]["frequency"], -shown[0]["adjacency"]))
        rows = [
            (
                f"{pair['from']} {joint} {pair['to']}",
                share(pair["frequency"]),
                share(pair["adjacency"]),
                shown(pair["low"]),
                shown(pair["high"]),
                "" if alone is None else share(alone),
            )
            for pair, joint in pairs
            for alone in (pair["noise_alone" if joint == "→" else "noise_alone_adjacency"],)
        ]
        header = ("edge", "found", "adjacent", "weight, 5 %", "95 %", "on noise alone")
        lines = str(self).splitlines()
        counted = "rounds" if self.kind == "rounds" else "runs"
        return card(f"Edges in {self.draws} {counted}", *map(paragraph, lines), table(rows, header, limit=40))

    def __repr__(self) -> str:
        return f"EdgeStability({len(self.columns)} columns, {self.draws} draws)"

    def __str__(self) -> str:
        lines = [self.method]
        if self.noise_alone_edges is not None:
            largest = self.noise_alone_weight
            size = "" if largest is None else f"; in 95 % of these runs no weight is beyond {largest:.3g}"
            lines.append(f"Noise alone makes {self.noise_alone_edges:.3g} edges on average{size}.")
        return "\n".join(lines)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
