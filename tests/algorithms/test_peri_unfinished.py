"""With too few regrets paid for, a run is refused before the charge, or ends with what it has; it is never lost."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from privfcd import IPERI, PERI, Budget, PrivateTable
from privfcd.algorithms import UnfinishedWarning
from privfcd.algorithms.ges.search import greedy_search
from privfcd.algorithms.hill_climb import hill_climb
from privfcd.algorithms.peri.private_regrets import REGRETS, least_regrets
from privfcd.algorithms.peri.settings import Settings
from privfcd.algorithms.scores import AnswersUsedUp, Family, GaussianBIC
from privfcd.errors import InvalidParameter
from privfcd.moments import Moments
from privfcd.reports import run_summary
from privfcd.runs import plan_run

Tables = Callable[..., list[PrivateTable]]
MODELS: list[tuple[Any, dict[str, Any]]] = [
    (PERI, {}),
    (PERI, {"max_parents": 2, "turning": False, "local": "ges"}),
    (IPERI, {}),
    (IPERI, {"refine": False}),
    (IPERI, {"refine": False, "orientation": "regret"}),
    (IPERI, {"refine": False, "orientation": "authors", "worst": "node"}),
    (IPERI, {"orientation": "regret", "worst": "node"}),
]


def paying(tables: Tables, epsilon: float = 5.0) -> list[PrivateTable]:
    return tables(budget=Budget(epsilon, 1e-5), bounds=8.0)


def fitted(model: Any, made: list[PrivateTable]) -> tuple[Any, bool]:
    """Fit, and say whether the run was unfinished."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(made)
    said = [each for each in caught if issubclass(each.category, UnfinishedWarning)]
    assert len(said) == len(model.notes_) <= 1
    assert not said or str(said[0].message) == model.notes_[0]
    return model, bool(said)


@pytest.mark.parametrize(("make", "options"), MODELS)
@pytest.mark.parametrize("epsilon", [5.0, 5000.0])
def test_a_run_that_was_paid_for_always_ends_with_a_graph(
    tables: Tables, make: Any, options: dict[str, Any], epsilon: float
) -> None:
    unfinished = []
    for most in (1, 2, 6, 9, 13, 18, 25, 40, 400):
        made = paying(tables, epsilon)
        model = make(privacy="regret", max_regrets=most, **options)
        least = least_regrets(model._settings(), 4)
        if most < least:
            with pytest.raises(InvalidParameter, match=f"max_regrets must be at least {least} for 4 columns"):
                model.fit(made)
            with pytest.raises(InvalidParameter, match="max_regrets must be at least"):
                plan_run(model, made)
            assert not any(table.ledger.entries() for table in made)
            continue
        model, cut = fitted(model, made)
        unfinished.append(cut)
        assert model.adjacency_matrix_.shape == (4, 4) and len(model.causal_graph_) == 4
        assert 0 < model.privacy_spent_[0] <= epsilon * (1 + 1e-9)
        for table, report in zip(made, model.privacy_report_, strict=True):
            drawn = {part.label: part.drawn for part in report.parts}
            assert drawn[REGRETS] <= most and table.ledger.entries()
        if cut:
            assert "max_regrets" in model.notes_[0] and run_summary(model, 1.0)["notes"] == model.notes_
            with pytest.warns(UnfinishedWarning):
                make(**model.get_params()).fit(paying(tables, epsilon))
    assert not unfinished[-1]  # with enough of them nothing is left undone


@pytest.mark.parametrize(("make", "options"), MODELS)
def test_enough_regrets_give_what_exact_moments_without_a_budget_give(
    tables: Tables, make: Any, options: dict[str, Any]
) -> None:
    """Open tables pay nothing, and stop as those with a budget do: the plan counts, not the noise."""
    made = tables(bounds=8.0)
    full, cut = fitted(make(privacy="regret", max_regrets=10_000, **options), made)
    assert not cut
    needed = max(report.parts[1].drawn for report in full.privacy_report_)
    again, cut = fitted(make(privacy="regret", max_regrets=needed, **options), tables(bounds=8.0))
    assert not cut and np.array_equal(again.adjacency_matrix_, full.adjacency_matrix_)
    assert needed >= least_regrets(full._settings(), 4)
    if needed > max(1, least_regrets(full._settings(), 4)):
        assert fitted(make(privacy="regret", max_regrets=needed - 1, **options), tables(bounds=8.0))[1]


def test_what_was_left_out_is_named(tables: Tables) -> None:
    said = set()
    for most in range(6, 60):
        options = {"privacy": "regret", "orientation": "regret", "max_regrets": most}
        model, cut = fitted(IPERI(**options), tables(bounds=8.0))
        if cut:
            said.add(model.notes_[0].split(":")[0])
    assert {text.replace(" of the common CPDAG", "") for text in said} == {
        "The search ended early; the refinement and the directions by regrets were left out",
        "The refinement ended early; the directions by regrets were left out",
    }


def test_a_later_fit_forgets_the_note(tables: Tables) -> None:
    model = PERI(privacy="regret", max_regrets=12)
    _, cut = fitted(model, paying(tables))
    model.set_params(max_regrets=400)
    again = fitted(model, paying(tables))[0]
    assert cut and again.notes_ == []


class Rationed:
    """A score that answers for so many families and no more."""

    def __init__(self, moments: Moments, left: int) -> None:
        self._score, self.left = GaussianBIC(moments), left
        self.d = self._score.d

    def local(self, families: Sequence[Family]) -> Any:
        if len(families) > self.left:
            raise AnswersUsedUp("no more")
        self.left -= len(families)
        return self._score.local(families)

    def total(self, sums: Any) -> Any:
        return self._score.total(sums)


@pytest.mark.parametrize("seed", range(3))
def test_a_search_that_is_cut_off_has_begun_as_the_whole_one(seed: int) -> None:
    rows = np.random.default_rng(seed).normal(size=(300, 6)) @ np.triu(np.full((6, 6), 0.7))
    moments = Moments(rows.T @ rows / 300, 300, tuple("abcdef"))
    whole = greedy_search(Rationed(moments, 10**9))
    climb = hill_climb(Rationed(moments, 10**9), ~np.eye(6, dtype=bool))
    assert whole.used_up is None and climb.used_up is None
    lengths, climbed = [], []
    for left in range(0, whole.families + 1, 5):
        part = greedy_search(Rationed(moments, left))
        assert part.steps == whole.steps[: len(part.steps)] and part.families <= left
        assert part.used_up is not None or part.steps == whole.steps
        lengths.append(len(part.steps))
        if left >= 6:
            climbed.append(hill_climb(Rationed(moments, left), ~np.eye(6, dtype=bool)))
    assert lengths == sorted(lengths) and lengths[0] == 0
    scores = [each.score for each in climbed]
    assert scores == sorted(scores) and all(score <= climb.score for score in scores)
    with pytest.raises(AnswersUsedUp):
        hill_climb(Rationed(moments, 5), ~np.eye(6, dtype=bool))


@pytest.mark.parametrize("d", [2, 3, 5])
@pytest.mark.parametrize(("make", "options"), MODELS)
def test_no_run_needs_less_than_the_least(make: Any, options: dict[str, Any], d: int) -> None:
    for seed in range(4):
        rows = np.random.default_rng(seed).normal(size=(2, 150, d)).cumsum(axis=2 if seed % 2 else 1)
        made = [PrivateTable(np.clip(part, -8, 8), name=f"p{k}", bounds=8.0) for k, part in enumerate(rows)]
        model, cut = fitted(make(privacy="regret", max_regrets=100_000, **options), made)
        assert not cut
        least = least_regrets(model._settings(), d)
        assert all(report.parts[1].drawn >= least for report in model.privacy_report_)


def test_settings_without_search_need_nothing() -> None:
    plain = {"masked": False, "refine": False, "orientation": None}
    assert least_regrets(Settings(**plain, max_parents=0), 9) == 0  # type: ignore[arg-type]
    assert least_regrets(Settings(**plain), 9) == 72  # type: ignore[arg-type]
    assert least_regrets(Settings(), 9) == 36 and least_regrets(Settings(refine=False), 9) == 0
