"""Parties that share a graph and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privfcd.datasets.non_iid import non_iid
from privfcd.errors import InvalidParameter


def test_parties_share_the_graph_and_the_signs_only() -> None:
    made = non_iid(8, 4, 50, 3, edges=12)
    assert int((made.weights != 0).sum()) == 12
    for own in made.party_weights:
        np.testing.assert_array_equal(own != 0, made.weights != 0)
        np.testing.assert_array_equal(np.sign(own), np.sign(made.weights))
        sizes = np.abs(own[own != 0])
        assert sizes.min() >= 0.25 and sizes.max() <= 1.0
    assert not np.array_equal(made.party_weights[0], made.party_weights[1])


def test_alike_parties_have_one_model_and_other_rows() -> None:
    made = non_iid(6, 3, 40, 1, alike=True)
    np.testing.assert_array_equal(made.party_weights[0], made.party_weights[2])
    assert not np.array_equal(made.tables[0], made.tables[1])


def test_errors_have_their_deviations_and_mechanisms_go_round() -> None:
    made = non_iid(5, 4, 20_000, 2, edges=6, mechanisms=("linear", "tanh"), noise_sd=(0.5, 0.6))
    for party, rows in enumerate(made.tables):
        parents = np.tanh(rows) if party % 2 else rows
        errors = rows - parents @ made.party_weights[party]
        assert ((errors.std(axis=0) > 0.48) & (errors.std(axis=0) < 0.62)).all()
        correlation = np.corrcoef(errors.T) - np.eye(5)
        assert np.abs(correlation).max() < 0.05


def test_a_partys_rows_do_not_depend_on_the_others() -> None:
    few, many = non_iid(5, 2, [30, 40], 9), non_iid(5, 3, [30, 60, 10], 9)
    np.testing.assert_array_equal(few.tables[0], many.tables[0])
    np.testing.assert_array_equal(few.tables[1], non_iid(5, 2, [99, 40], 9).tables[1])
    assert [len(rows) for rows in many.tables] == [30, 60, 10]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"edges": 11}, "edges"),
        ({"weights": (1.0, 0.5)}, "weights"),
        ({"weights": (0.0, 1.0)}, "weights"),
        ({"noise_sd": (1.0,)}, "noise_sd"),
        ({"mechanisms": ("cubic",)}, "mechanisms"),
        ({"mechanisms": "linear"}, "mechanisms"),
        ({"mechanisms": ()}, "mechanisms"),
        ({"alike": 1}, "alike"),
        ({"rows": [3, 4]}, "rows"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_arguments_are_refused(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidParameter, match=name):
        non_iid(**{"d": 5, "parties": 3, "rows": 10, "seed": 0, **changes})
