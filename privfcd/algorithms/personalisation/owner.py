"""The owner's exact weights and errors, from the owner's own rows: nothing is charged, and nothing may leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from privfcd.algorithms.personalisation.weights import (
    Array,
    PersonalWeights,
    check_names,
    families_of,
    refitted,
    structure_of,
)
from privfcd.data.private import PrivateTable
from privfcd.data.tables import read_table
from privfcd.errors import InvalidParameter
from privfcd.moments import Moments


def personalise_for_owner(
    model: Any, rows: Any, columns: Sequence[str] | None = None, *, center: bool = True, party: str = "owner"
) -> PersonalWeights:
    """Return the owner's exact weights on the learnt graph: FOR THE OWNER ONLY.

    Nothing is charged, because nothing leaves: whoever shows the result to others gives away exact statistics of the rows.
    It takes the rows themselves, which only their owner has; a `PrivateTable` hands out none.

    Parameters
    ----------
    model : fitted estimator or networkx.DiGraph
        The graph; acyclic.
    rows : array of shape (n, d), DataFrame, or path
        The owner's rows.
    columns : sequence of str, optional
        Names; those of the source by default.
    center : bool
        Whether the rows' mean is taken off first; False says that it is 0.
    party : str
        The owner's name.

    Raises
    ------
    InvalidParameter, InvalidTable
        What is wrong.
    """
    names, weights = structure_of(model)
    values = _owned_rows(rows, columns, names)
    if center:
        values = values - values.mean(axis=0)
    matrix = values.T @ values / len(values)
    moments = Moments((matrix + matrix.T) / 2, len(values), names)
    families = families_of(weights)
    answer = refitted([(moments, family) for family in families], families, names, party)
    return PersonalWeights(answer.weights, names, party, for_owner_only=True)


def prediction_error_for_owner(
    weights: PersonalWeights, rows: Any, columns: Sequence[str] | None = None, *, center: bool = True
) -> Array:
    """Return the mean squared error of predicting each variable from its parents, on rows of the owner: FOR THE OWNER ONLY.

    Exact, and not charged; best on rows that were held out of the fit.

    Parameters
    ----------
    weights : PersonalWeights
        Of any party.
    rows, columns, center
        As for `personalise_for_owner`.

    Returns
    -------
    ndarray of shape (d,)
        In the order of `weights.columns`; of a variable without parents, its mean square.
    """
    values = _owned_rows(rows, columns, weights.columns)
    if center:
        values = values - values.mean(axis=0)
    return np.asarray(((values - values @ weights.weights) ** 2).mean(axis=0))


def _owned_rows(rows: Any, columns: Sequence[str] | None, names: tuple[str, ...]) -> Array:
    if isinstance(rows, PrivateTable):
        raise InvalidParameter(
            "rows must be the owner's own rows, got a PrivateTable, whose answers are charged: see `personalise`"
        )
    table = read_table(rows, columns=columns)
    check_names(names, table.columns)
    return table.rows[:, [table.columns.index(name) for name in names]]
