"""What all estimators share: scikit-learn's conventions, without scikit-learn."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from privfcd import checks
from privfcd.algorithms.notebook import changed_parameters, estimator_html

if TYPE_CHECKING:
    import networkx as nx
    import numpy as np
    from numpy.typing import NDArray

    from privfcd.algorithms.judgement import Judgement
    from privfcd.ledger.privacy_report import PrivacyReport
    from privfcd.moments import Moments

NULL_LEVEL = 0.05
"""The share of runs on independent columns that may state an edge, at default settings."""


class Estimator:
    """Parameters are set in `__init__` and nowhere else, checked in `fit`; results end in an underscore.

    Attributes
    ----------
    judgement_ : Judgement
        Whether the graph is more than noise and chance, and which edges are: `.text`, `.edges`, `.expected_false`.
    notes_ : sequence of str
        What a user should know of this fit, from released values only; mostly empty. See `scale_notes`.
    paid_before_ : bool
        Whether the fit was to moments: noisy ones were paid for when they were released, exact ones by nobody.
    unprotected_ : int
        How many parties' moments have no noise, pooled ones too: no release protects their records. 0 for tables, whose
        reports say it.
    unreported_ : int
        How many parties' moments came without the report of their release, where `learn` found reports of others.
    late_rounds_ : LateRounds or None
        What the noise of late rounds says of each edge, for `edge_stability`; None where there are no noisy rounds.
    no_stability_ : str or None
        Why `edge_stability` has nothing to work on; None where it has.
    """

    notes_: Sequence[str] = ()
    judgement_: Judgement
    causal_graph_: nx.DiGraph[str]
    adjacency_matrix_: NDArray[Any]
    privacy_report_: list[PrivacyReport] | None
    privacy_spent_: tuple[float, float]
    released_moments_: tuple[Moments, ...] | None
    bytes_exchanged_: int
    feature_names_in_: NDArray[np.object_]
    n_features_in_: int

    @classmethod
    def _parameters(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; `deep` is there for scikit-learn and makes no difference."""
        return {name: getattr(self, name) for name in self._parameters()}

    def fitted_params(self) -> dict[str, Any]:
        """Return the parameters that the last fit was made with, whatever was set since; before a fit, those set now."""
        given: dict[str, Any] | None = self.__dict__.get("_fitted_with")
        return self.get_params() if given is None else dict(given)

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, and return self."""
        known = self._parameters()
        for name, value in params.items():
            if name not in known:
                raise checks.refuse("parameter", name, "one of " + ", ".join(known))
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = changed_parameters(self)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def _repr_html_(self) -> str:
        return estimator_html(self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "causal_graph_")

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags; called by scikit-learn only."""
        known = import_module("sklearn.utils")
        return known.Tags(estimator_type=None, target_tags=known.TargetTags(required=False))
