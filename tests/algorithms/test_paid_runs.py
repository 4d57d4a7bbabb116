"""A run that was paid for is not lost: what can be refused is refused before, and what goes wrong later ends it early."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import privfcd as pf
from privfcd.algorithms.equal_variance.estimator import EqualVarianceWarning
from privfcd.algorithms.fed_bnsl import coordinator as bnsl
from privfcd.algorithms.fed_sparse import coordinator as sparse
from privfcd.algorithms.fed_sparse import greedy
from privfcd.algorithms.notears import solver
from privfcd.algorithms.release import MomentsWarning
from privfcd.algorithms.results import warn_when_paid
from privfcd.errors import ConvergenceFailure, InvalidParameter
from privfcd.reports import report_html, run_summary

ROWS = pf.simulate.linear_gaussian(4, parties=2, rows=300, seed=1).tables


def paying() -> list[pf.PrivateTable]:
    budget, noise = pf.Budget(5.0, 1e-6), pf.SimulatedNoise(1)
    return [pf.PrivateTable(x, name=f"p{k}", budget=budget, bounds=20.0, noise=noise) for k, x in enumerate(ROWS)]


@pytest.mark.parametrize("model", [pf.FedSparseBNSL(rounds=2), pf.FedBNSL(rounds=2)])
def test_what_cannot_be_called_is_refused_before_the_charge(model: Any) -> None:
    tables = paying()
    for source in (tables, pf.Moments(np.eye(4), 9, tuple("abcd"))):
        with pytest.raises(InvalidParameter, match="on_round must be a function"):
            model.fit(source, on_round=3)
    with pytest.raises(InvalidParameter, match="whitening must be a function"):
        pf.release_moments(tables, whitening=3)  # type: ignore[arg-type]
    assert not any(table.ledger.entries() for table in tables)


def failing(monkeypatch: Any, module: Any, name: str, at: int) -> None:
    """Make the `at`-th call of a function fail as one does that finds no finite weights."""
    calls, original = [0], getattr(module, name)

    def made(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] >= at:
            raise ConvergenceFailure("no finite point")
        return original(*args, **options)

    monkeypatch.setattr(module, name, made)


@pytest.mark.parametrize("at", [1, 2, 5])
def test_fed_sparse_ends_with_the_rounds_before(monkeypatch: Any, at: int) -> None:
    whole = pf.FedSparseBNSL(release="coordinates", rounds=5, updates=3).fit(paying())
    failing(monkeypatch, sparse, "consensus_step", at)
    model = pf.FedSparseBNSL(release="coordinates", rounds=5, updates=3).fit(paying())
    assert [row["edges"] for row in model.history_] == [row["edges"] for row in whole.history_][: at - 1]
    assert any(f"ended in round {at} of 5" in note for note in model.notes_)
    assert model.privacy_spent_ == whole.privacy_spent_ and run_summary(model, 1.0)["notes"] == list(model.notes_)
    assert (model.late_rounds_ is None) == (at == 1)
    assert "ended in round" in report_html(model)


def test_fed_sparse_ends_where_a_party_cannot_compute_scores_any_more(monkeypatch: Any) -> None:
    monkeypatch.setattr(greedy.GreedyDescent, "largest_public", lambda *_: 1e-9)
    model = pf.FedSparseBNSL(release="coordinates", rounds=4, updates=2).fit(paying())
    assert "weights grew" in model.notes_[-1] and len(model.history_) < 4


def test_fed_sparse_on_moments_keeps_the_note(monkeypatch: Any) -> None:
    failing(monkeypatch, sparse, "consensus_step", 3)
    model = pf.FedSparseBNSL(release="preconditioned", rounds=9).fit(paying())
    assert len(model.history_) == 2 and "ended in round 3 of 9" in model.notes_[-1]


def test_fed_bnsl_and_notears_end_with_what_they_had(monkeypatch: Any) -> None:
    failing(monkeypatch, bnsl, "consensus_step", 4)
    model: Any = pf.FedBNSL(rounds=8).fit(paying())
    assert len(model.history_) == 3 and "ended in round 4 of 8" in model.notes_[-1]
    failing(monkeypatch, solver, "lagrangian_step", 4)
    model = pf.NOTEARS().fit(paying())
    assert model.history_ and "ended after step" in model.notes_[-1] and model.privacy_spent_[0] > 0


def test_warnings_that_were_made_errors_do_not_lose_what_was_paid_for(monkeypatch: Any) -> None:
    seen = []
    monkeypatch.setattr(
        "privfcd.algorithms.release.rules.unknown",
        lambda moments: np.arange(len(moments.columns)) == 0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        released = pf.release_moments(paying())
        model = pf.IPERI(privacy="regret", max_regrets=7).fit(paying())
        seen.append(released.rule["unknown"])
    assert seen == [["x0"]] and model.notes_ and model.privacy_report_
    with pytest.warns(MomentsWarning, match="x0") as caught:
        pf.release_moments(paying())
    assert caught[0].filename == __file__
    with pytest.warns(EqualVarianceWarning) as caught:
        warn_when_paid("text", EqualVarianceWarning, stacklevel=1)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("scale", [1e-120, 1.0, 1e95])
def test_equal_variances_of_columns_that_determine_each_other(scale: float) -> None:
    """Exact moments may be singular, and of any size: the test of the assumption must not end the run."""
    x = np.random.default_rng(1).normal(size=(50, 1)) * scale
    rows = np.hstack([x, x, x, 2 * x])
    moments = pf.Moments(rows.T @ rows / 50, 50, tuple("abcd"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = pf.EqualVarianceSearch().fit(moments)
    assert np.isfinite(model.equal_variances_.statistic) and len(model.causal_graph_) == 4
    zeros = pf.EqualVarianceSearch().fit(pf.Moments(np.zeros((3, 3)), 50, tuple("abc")))
    assert zeros.causal_graph_.number_of_edges() == 0


@pytest.mark.filterwarnings("ignore")
def test_the_test_of_equal_variances_does_not_hang_on_units() -> None:
    matrix = np.diag([1.0, 1.5, 2.0, 1.1])
    found = [
        pf.EqualVarianceSearch().fit(pf.Moments(matrix * u, 80, tuple("abcd"))).equal_variances_ for u in (1.0, 1e90)
    ]
    assert found[0].statistic == pytest.approx(found[1].statistic, rel=1e-12)
    assert found[0].common == pytest.approx(found[1].common / 1e90)
