"""Least squares of every variable on its parents, from second moments of the families."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.errors import InvalidParameter
from privfcd.graphs.dag import from_networkx, is_acyclic, to_networkx
from privfcd.ledger.privacy_report import PrivacyReport
from privfcd.moments import Moments

if TYPE_CHECKING:
    import networkx as nx

Array = NDArray[np.float64]
Families = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class PersonalWeights:
    """One party's weights on the shared graph.

    Attributes
    ----------
    weights : ndarray of shape (d, d)
        Entry [i, j] is the weight of i -> j; 0 off the graph.
    columns : tuple of str
        Names.
    party : str
        Whose they are.
    for_owner_only : bool
        True: exact answers from the owner's rows, outside every budget, which must not leave the owner. False: as
        `privacy_report` says, or as the Moments were released.
    noise_sd : ndarray of shape (d, d), optional
        Standard deviation that the release's noise gives each weight, to first order; None for exact moments.
    privacy_report : PrivacyReport, optional
        Of the release that was made for this; None for Moments and for the owner's own.
    """

    weights: Array
    columns: tuple[str, ...]
    party: str
    for_owner_only: bool
    noise_sd: Array | None = None
    privacy_report: PrivacyReport | None = None

    @property
    def graph(self) -> nx.DiGraph[str]:
        """The graph with these weights; an edge whose weight came out as exactly 0 is missing."""
        return to_networkx(self.weights, self.columns)

    def __repr__(self) -> str:
        whose = ", FOR THE OWNER ONLY" if self.for_owner_only else ""
        return f"PersonalWeights({self.party!r}, {np.count_nonzero(self.weights)} edges{whose})"


def structure_of(model: Any) -> tuple[tuple[str, ...], Array]:
    """Return the names and the weights of a fitted estimator, or of a graph."""
    if hasattr(model, "get_params") and not hasattr(model, "adjacency_matrix_"):
        raise InvalidParameter(f"model must be fitted first, got {model!r}")
    if hasattr(model, "adjacency_matrix_"):
        names = tuple(str(name) for name in model.feature_names_in_)
        weights = np.array(model.adjacency_matrix_, dtype=np.float64)
    else:
        names = tuple(getattr(model, "nodes", ()))
        weights = from_networkx(model, names)
    if not is_acyclic(weights):
        raise checks.refuse("model", model, "an acyclic graph, every edge with one direction")
    return names, weights


def families_of(weights: Array) -> Families:
    """Return each variable that has parents, after its parents."""
    found = [(*np.flatnonzero(weights[:, child]).tolist(), child) for child in range(len(weights))]
    return tuple(family for family in found if len(family) > 1)


def check_names(wanted: Sequence[str], given: Sequence[str]) -> None:
    if sorted(wanted) != sorted(given):
        missing, extra = sorted(set(wanted) - set(given)), sorted(set(given) - set(wanted))
        raise InvalidParameter(f"columns must be those of the graph: missing {missing}, unknown {extra}")


def refitted(
    parts: Sequence[tuple[Moments, tuple[int, ...]]],
    families: Families,
    columns: tuple[str, ...],
    party: str,
    report: PrivacyReport | None = None,
) -> PersonalWeights:
    """Regress each child on its parents, by moments that hold the family at the given places."""
    d = len(columns)
    weights, noise = np.zeros((d, d)), np.zeros((d, d))
    noisy = False
    for (moments, places), family in zip(parts, families, strict=True):
        parents, child = list(family[:-1]), family[-1]
        weights[parents, child], sd = refit(moments, places[:-1], places[-1])
        if sd is not None:
            noisy = True
            noise[parents, child] = sd
    return PersonalWeights(weights, columns, party, False, noise if noisy else None, report)


def refit(moments: Moments, parents: Sequence[int], child: int) -> tuple[Array, Array | None]:
    """Return the least-squares weights of `child` on `parents`, and the sd that the moments' noise gives them.

    w = S_PP⁻¹ S_Pj. To first order, noise N moves weight k by u'N v with u = S_PP⁻¹ e_k and v = e_j - w. Noisy moments are
    first lifted to eigenvalues of at least the sd of their diagonal's noise, within the family. Parents that determine each
    other get the shortest of the best weights.

    Parameters
    ----------
    moments : Moments
        Exact or released.
    parents : sequence of int
        Columns of the moments.
    child : int
        Another column.
    """
    family = [*parents, child]
    block = moments.matrix[np.ix_(family, family)]
    variances = moments.noise_sd
    if variances is not None:
        names = tuple(moments.columns[column] for column in family)
        block = Moments(block, moments.rows, names).repaired(float(variances[family, family].max())).matrix
    inverse = np.linalg.pinv(block[:-1, :-1], hermitian=True)
    weights = inverse @ block[:-1, -1]
    if moments.exact:
        return weights, None
    d = len(moments.columns)
    left, right = np.zeros((d, len(parents))), np.zeros((d, len(parents)))
    left[list(parents)] = inverse
    right[list(parents)] = -weights[:, None]
    right[child] = 1.0
    return weights, np.sqrt(moments.noise_variances(left, right))
