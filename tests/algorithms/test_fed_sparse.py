"""Fed-Sparse-BNSL: the estimator, its messages and its halves, apart from what they pay."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest

from privfcd.accounting import Budget
from privfcd.algorithms.consensus import consensus_step
from privfcd.algorithms.fed_sparse import FedSparseBNSL, messages
from privfcd.algorithms.fed_sparse import coordinator as coordinator_module
from privfcd.algorithms.fed_sparse.constants import default_clip, lifted
from privfcd.algorithms.protocol import SparseMatrix
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter, InvalidTable
from privfcd.graphs.dag import is_acyclic
from privfcd.mechanisms import SimulatedNoise
from tests.support.helpers import wiretapped

Tables = Callable[..., list[PrivateTable]]
Model = Callable[..., FedSparseBNSL]
PRIVATE = Budget(epsilon=100, delta=1e-5)
"""Private, and yet enough on 200 rows that something is learnt."""


def test_without_noise_the_graph_is_found(tables: Tables, model: Model, weights: np.ndarray) -> None:
    fitted = model(rounds=30, updates=30, l1=0.02).fit(tables())
    assert set(fitted.causal_graph_.edges) == {("a", "b"), ("b", "c"), ("d", "c"), ("a", "d")}
    np.testing.assert_allclose(fitted.adjacency_matrix_, weights, atol=0.15)
    assert fitted.privacy_spent_ == (math.inf, 0.0)
    assert list(fitted.feature_names_in_) == ["a", "b", "c", "d"] and fitted.n_features_in_ == 4


@pytest.mark.parametrize("budget", [None, PRIVATE])
def test_results_are_what_they_are_said_to_be(tables: Tables, model: Model, budget: Budget | None) -> None:
    seen: list[Any] = []
    fitted = model(threshold=0.05).fit(tables(budget=budget), on_round=seen.append)
    assert is_acyclic(fitted.adjacency_matrix_) and nx.is_directed_acyclic_graph(fitted.causal_graph_)
    assert list(fitted.causal_graph_.nodes) == ["a", "b", "c", "d"]
    edges = {(i, j): fitted.adjacency_matrix_[i, j] for i, j in zip(*np.nonzero(fitted.adjacency_matrix_), strict=True)}
    named = {("abcd"[i], "abcd"[j]): weight for (i, j), weight in edges.items()}
    assert {(a, b): w for a, b, w in fitted.causal_graph_.edges(data="weight")} == named
    assert all(abs(weight) > 0.05 for weight in named.values())
    assert [row["round"] for row in fitted.history_] == [1, 2, 3] == [record.number for record in seen]
    assert [row["bytes"] for row in fitted.history_] == sorted(row["bytes"] for row in fitted.history_)
    assert fitted.bytes_exchanged_ >= fitted.history_[-1]["bytes"]
    seconds = [row["seconds"] for row in fitted.history_]
    assert seconds == sorted(seconds) and seconds[0] >= 0


@pytest.mark.parametrize("budget", [None, PRIVATE])
def test_the_same_seeds_give_the_same_result_whatever_the_columns_order(
    tables: Tables, model: Model, parts: list[np.ndarray], budget: Budget | None
) -> None:
    first, again = (model(center=True).fit(tables(budget=budget)) for _ in range(2))
    np.testing.assert_array_equal(first.adjacency_matrix_, again.adjacency_matrix_)
    turned = [parts[0], parts[1][:, [2, 0, 3, 1]], parts[2][:, ::-1]]
    names = [("a", "b", "c", "d"), ("c", "a", "d", "b"), ("d", "c", "b", "a")]
    other = model(center=True).fit(tables(turned, columns=names, budget=budget))
    np.testing.assert_array_equal(first.dropped_.weights, other.dropped_.weights)
    assert first.history_[-1]["h"] == other.history_[-1]["h"]
    assert [report.declared["columns"] for report in other.privacy_report_] == [list(name) for name in names]
    if budget is not None:
        reseeded = model(center=True).fit(tables(budget=budget, noise=SimulatedNoise(8)))
        assert first.adjacency_matrix_.any()
        assert not np.array_equal(first.adjacency_matrix_, reseeded.adjacency_matrix_)


def test_the_order_of_parties_changes_nothing_without_noise(
    tables: Tables, model: Model, parts: list[np.ndarray]
) -> None:
    plain, turned = (model(rounds=6).fit(tables(rows)) for rows in (parts, [parts[2], parts[0], parts[1]]))
    np.testing.assert_allclose(plain.adjacency_matrix_, turned.adjacency_matrix_, atol=1e-6)
    assert plain.bytes_exchanged_ == turned.bytes_exchanged_


@pytest.fixture
def wiretap(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, list[Any]]]:
    return wiretapped(monkeypatch, messages)


@pytest.mark.parametrize("budget", [None, PRIVATE])
def test_bytes_are_those_of_the_papers_rule(
    tables: Tables, model: Model, budget: Budget | None, wiretap: list[tuple[Any, list[Any]]]
) -> None:
    rounds, parties, d = 4, 3, 4
    fitted = model(rounds=rounds).fit(tables(budget=budget))
    entry = 8 + math.ceil(math.log2(d * d) / 8)
    local = sent = setup = 0
    for message, answers in wiretap:
        if isinstance(message, messages.Round | messages.Finish):
            sent += parties * int((message.weights.dense() != 0).sum()) * entry
        if isinstance(message, messages.Round):
            local += sum(int((answer.weights.dense() != 0).sum()) for answer in answers) * entry
        if isinstance(message, messages.Start):
            for answer in answers:
                setup += 8 * sum(len(said or ()) for said in (answer.second_moments, answer.noise_sd, answer.most))
        if isinstance(message, messages.Configure):
            setup += 8 * parties * (len(message.second_moments or ()) + (message.clip is not None))
    assert fitted.bytes_exchanged_ == local + sent + setup
    assert setup == (0 if budget is None else 8 * (3 * 3 * d + 3 * (d + 1))) and local > 0 and sent > 0
    kinds = [type(message).__name__ for message, _ in wiretap]
    assert kinds == ["Offer", "Charge", "Start", "Configure", *["Round"] * rounds, "Finish"]


def test_messages_hold_no_rows_and_no_exact_statistics(
    tables: Tables, model: Model, parts: list[np.ndarray], wiretap: list[tuple[Any, list[Any]]]
) -> None:
    fitted = model(center=True).fit(tables(budget=PRIVATE))
    numbers: list[float] = []
    for message, answers in wiretap:
        for one in (message, *answers):
            for value in vars(one).values():
                if isinstance(value, SparseMatrix):
                    numbers += value.values.tolist()
                elif isinstance(value, tuple) and value and isinstance(value[0], float):
                    numbers += list(value)
    exact = np.concatenate([np.concatenate([part.mean(0), (part**2).mean(0), part.var(0)]) for part in parts])
    assert len(numbers) > 20
    assert not any(np.isclose(number, exact, rtol=1e-6, atol=0).any() for number in numbers)
    assert fitted.privacy_report_


def test_the_steps_are_those_of_the_papers_algorithm(
    tables: Tables, model: Model, parts: list[np.ndarray], wiretap: list[tuple[Any, list[Any]]]
) -> None:
    """Algorithm 1 written out again, plainly, from the gradient down; compared message by message."""
    rho2, l1, gamma, updates, rounds = 1.0, 0.1, 0.5, 4, 3
    model(rounds=rounds, updates=updates).fit(tables())
    asked = [(message, answers) for message, answers in wiretap if isinstance(message, messages.Round)]
    assert len(asked) == rounds and not asked[0][0].weights.values.size
    duals = [np.zeros((4, 4)) for _ in parts]
    for number, (message, answers) in enumerate(asked):
        consensus = message.weights.dense()
        if number:
            before = [answer.weights.dense() for answer in asked[number - 1][1]]
            duals = [dual + rho2 * (mine - consensus) for dual, mine in zip(duals, before, strict=True)]
        for rows, dual, answer in zip(parts, duals, answers, strict=True):
            moments = rows.T @ rows / len(rows)
            smooth = np.diag(moments) + rho2
            weights = consensus.copy()
            for _ in range(updates):
                gradient = moments @ weights - moments + dual + rho2 * (weights - consensus)
                moved = weights - gradient / smooth[:, None]
                target = np.sign(moved) * np.maximum(np.abs(moved) - l1 / smooth[:, None], 0)
                scores = np.sqrt(smooth)[:, None] * np.abs(target - weights)
                np.fill_diagonal(scores, -1.0)
                i, j = np.unravel_index(scores.argmax(), scores.shape)
                step = weights[i, j] - gamma * gradient[i, j] / smooth[i]
                weights[i, j] = np.sign(step) * max(abs(step) - gamma * l1 / smooth[i], 0)
            np.testing.assert_allclose(answer.weights.dense(), weights, atol=1e-9)


def test_the_coordinators_step_is_that_of_the_papers_algorithm(
    tables: Tables, model: Model, monkeypatch: pytest.MonkeyPatch, wiretap: list[tuple[Any, list[Any]]]
) -> None:
    """W = argmin alpha h + rho1/2 h² + P rho2/2 |W - A|², A = mean B_p + mean beta_p / rho2; alpha += rho1 h."""
    rho1, rho2, calls = 100.0, 2.0, []

    def watched(*arguments: Any) -> tuple[np.ndarray, float]:
        calls.append((arguments, consensus_step(*arguments)))
        return calls[-1][1]

    monkeypatch.setattr(coordinator_module, "consensus_step", watched)
    fitted = model(rounds=5, rho1=rho1, rho2=rho2).fit(tables())
    rounds = [[a.weights.dense() for a in answers] for m, answers in wiretap if isinstance(m, messages.Round)]
    alpha, duals = 0.0, [np.zeros((4, 4))] * 3
    for locals_, ((start, average, support, given_alpha, given_rho1, weight), (result, h)) in zip(
        rounds, calls, strict=True
    ):
        assert (given_alpha, given_rho1, weight) == (pytest.approx(alpha), rho1, 3 * rho2)
        np.testing.assert_allclose(average, np.mean(locals_, axis=0) + np.mean(duals, axis=0) / rho2, atol=1e-12)
        np.testing.assert_array_equal(support, np.any(np.array(locals_) != 0, axis=0))
        assert not start[~support].any() and not np.diag(support).any()
        alpha += rho1 * h
        duals = [dual + rho2 * (mine - result) for dual, mine in zip(duals, locals_, strict=True)]
    np.testing.assert_array_equal(wiretap[-1][0].weights.dense(), calls[-1][1][0])
    assert [row["h"] for row in fitted.history_] == [call[1][1] for call in calls]


def test_shared_constants_are_averages_over_all_rows(
    tables: Tables, model: Model, parts: list[np.ndarray], wiretap: list[tuple[Any, list[Any]]]
) -> None:
    uneven = [parts[0], parts[1][:50], parts[2][:120]]
    model(rho2=1.0).fit(tables(uneven, budget=Budget(rho=1e6), bounds=50.0))
    (started_,) = [answers for message, answers in wiretap if isinstance(message, messages.Start)]
    (told,) = [message for message, _ in wiretap if isinstance(message, messages.Configure)]
    expected = np.average([answer.second_moments for answer in started_], axis=0, weights=[200, 50, 120])
    np.testing.assert_allclose(told.second_moments, expected)
    np.testing.assert_allclose(expected, (np.vstack(uneven) ** 2).mean(axis=0), rtol=0.05)
    assert told.clip == pytest.approx(default_clip(expected, 1.0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 0}, "rounds must be a whole number of at least 1, got 0"),
        ({"rounds": 2.0}, "rounds must be a whole number"),
        ({"rounds": True}, "rounds must be a whole number"),
        ({"updates": 0}, "updates must be a whole number of at least 1, got 0"),
        ({"updates": -3}, "updates must be"),
        ({"clip": 0.0}, "clip must be .* got 0.0"),
        ({"clip": math.nan}, "clip must be"),
        ({"clip": -1}, "clip must be"),
        ({"step": 0.0}, "step must be"),
        ({"step": 1.01}, r"step must be in \(0, 1\], got 1.01"),
        ({"l1": -0.1}, "l1 must be"),
        ({"rho1": 0}, "rho1 must be"),
        ({"rho2": math.inf}, "rho2 must be"),
        ({"threshold": math.nan}, "threshold must be"),
        ({"center": 1}, "center must be True, False or None"),
        ({"smoothness": [1.0, 2.0]}, "smoothness must have one number for each of 4 columns, got 2"),
        ({"smoothness": [1.0, 2.0, 3.0, 0.0]}, "smoothness must be .* got 0.0"),
        ({"smoothness": []}, "smoothness must have one number"),
        ({"epsilon": 0}, "epsilon must be a finite number above 0, got 0"),
        ({"epsilon": -1.0}, "epsilon must be .* got -1.0"),
        ({"epsilon": math.nan}, "epsilon must be .* got nan"),
        ({"epsilon": math.inf}, "epsilon must be .* got inf"),
        ({"epsilon": True}, "epsilon must be"),
        ({"delta": 1.0}, r"delta must be in \[0, 1\), got 1.0"),
        ({"delta": 1.5}, "delta must be"),
        ({"delta": -1e-9}, "delta must be"),
        ({"delta": math.nan}, "delta must be"),
        ({"noise_multiplier": 0.0}, "noise_multiplier must be"),
        ({"noise_multiplier": 1.0, "epsilon": 1.0}, "epsilon or noise_multiplier, not both"),
        ({"bounds_share": 0.0}, "bounds_share must be"),
        ({"mean_share": 1.0}, "mean_share must be"),
        ({"smoothness_share": 0.9}, "must add up to less than 1"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused_by_name_before_anything_is_charged(
    tables: Tables, model: Model, changes: dict[str, Any], message: str, arm: Callable[..., PrivateTable]
) -> None:
    made = [arm(table) for table in tables(budget=PRIVATE)]
    with pytest.raises(InvalidParameter, match=message):
        model(**changes).fit(made)
    assert not any(table.ledger.entries() for table in made)


def test_tables_that_do_not_fit_are_refused(tables: Tables, model: Model, parts: list[np.ndarray]) -> None:
    def attempt(error: type[Exception], message: str, made: Any) -> None:
        with pytest.raises(error, match=message):
            model().fit(made)

    attempt(InvalidParameter, "non-empty list of PrivateTable", [])
    attempt(InvalidParameter, "non-empty list of PrivateTable", tables()[0])
    attempt(InvalidParameter, r"tables\[1\] must be a PrivateTable, got ndarray: wrap it", [tables()[0], parts[1]])
    other = tables(columns=[tuple("abcd"), tuple("abcd"), tuple("abce")])
    attempt(InvalidTable, r"'ward-2' has other columns than 'ward-0': missing \['d'\], unknown \['e'\]", other)
    single = [PrivateTable(np.ones((5, 1)) * np.arange(5)[:, None])]
    attempt(InvalidParameter, "number of columns must be at least 2", single)
    one = tables(budget=PRIVATE)
    attempt(InvalidParameter, "a ledger each", [one[0], one[1], one[0]])
    assert not any(table.ledger.entries() for table in one)


def test_it_is_a_scikit_learn_estimator(model: Model) -> None:
    made = model(rounds=7)
    params = made.get_params()
    assert params["rounds"] == 7 and FedSparseBNSL(**params).get_params() == params
    assert made.set_params(rounds=9, l1=0.2) is made and (made.rounds, made.l1) == (9, 0.2)
    with pytest.raises(InvalidParameter, match="parameter must be one of rounds"):
        made.set_params(nonsense=1)
    assert "rounds=9" in repr(made) and not hasattr(made, "causal_graph_")


def test_one_party_is_a_federation_too(tables: Tables, model: Model, parts: list[np.ndarray]) -> None:
    fitted = model(rounds=20, updates=20, l1=0.02).fit(tables(parts[:1]))
    assert set(fitted.causal_graph_.edges) >= {("a", "b"), ("b", "c")}


def test_constants_from_second_moments() -> None:
    assert lifted(np.array([4.0, -1.0, 1e-9, 9.0])).tolist() == pytest.approx([4.0, 2e-3, 2e-3, 9.0], rel=1e-3)
    assert (lifted(np.array([-1.0, -2.0, 3.0])) > 0).all() and (lifted(np.array([-1.0, -2.0])) > 0).all()
    assert default_clip(np.array([1.0, 4.0]), 1.0) > 0
    doubled, plain = default_clip(np.array([4.0, 16.0]), 4.0), default_clip(np.array([1.0, 4.0]), 1.0)
    assert doubled == pytest.approx(4 * plain), "columns twice as large have products four times as large"


@pytest.mark.parametrize("value", [2.0, "abcd", [True, 1.0, 1.0, 1.0], [1.0, None, 1.0, 1.0]], ids=str)
def test_smoothness_of_the_wrong_kind_is_refused_by_name(tables: Tables, model: Model, value: Any) -> None:
    with pytest.raises(InvalidParameter, match="smoothness"):
        model(smoothness=value).fit(tables())


def test_an_estimator_with_an_array_can_be_shown(model: Model) -> None:
    assert "smoothness" in repr(model(smoothness=np.ones(4)))
