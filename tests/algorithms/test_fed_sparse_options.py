"""Fed-Sparse-BNSL's options: the refit, what is kept, workers, losses, moments, Mangold's mechanisms, what is released."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from privfcd.accounting import Budget, epsilon_of
from privfcd.algorithms.fed_sparse import FedSparseBNSL, messages
from privfcd.algorithms.fed_sparse.constants import REFIT_CLIP, REFIT_STEPS, default_clip, default_keep
from privfcd.algorithms.fed_sparse.greedy import SELECTION, UPDATE
from privfcd.algorithms.fed_sparse.losses import SQUARED, HuberLoss
from privfcd.algorithms.fed_sparse.moment_party import MomentParty
from privfcd.algorithms.fed_sparse.plan import REFIT, plan_releases, published_multiplier
from privfcd.algorithms.fed_sparse.refit import implied_moments
from privfcd.algorithms.fed_sparse.settings import Settings
from privfcd.algorithms.protocol import SparseMatrix
from privfcd.audits.regimes import unequal_advanced_composition
from privfcd.data.private import PrivateTable
from privfcd.errors import BudgetExceeded, InvalidParameter, PartyFailed
from privfcd.mechanisms import SimulatedNoise
from privfcd.moments import Moments, NoiseTerm
from tests.support.helpers import exact, wiretapped

Tables = Callable[..., list[PrivateTable]]
Model = Callable[..., FedSparseBNSL]
PRIVATE = Budget(epsilon=100, delta=1e-5)
TRUE_EDGES = {("a", "b"), ("b", "c"), ("d", "c"), ("a", "d")}


def settings_of(learner: FedSparseBNSL, tables: list[PrivateTable]) -> Settings:
    return learner.settings_for(learner.facts_of(tables))


@pytest.fixture
def wiretap(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, list[Any]]]:
    return wiretapped(monkeypatch, messages)


def test_the_exact_refit_is_least_squares_on_the_support(
    tables: Tables, model: Model, parts: list[np.ndarray], wiretap: list[tuple[Any, list[Any]]]
) -> None:
    fitted = model(rounds=30, updates=30, refit_share=0.05).fit(tables())
    assert set(fitted.causal_graph_.edges) == TRUE_EDGES
    pooled = np.concatenate(parts)
    weights = wiretap[-1][0].weights.dense()
    assert np.array_equal(fitted.adjacency_matrix_, np.where(np.abs(weights) > 0.3, weights, 0))
    for j in range(4):
        parents = np.flatnonzero(weights[:, j])
        if len(parents):
            best = np.linalg.lstsq(pooled[:, parents], pooled[:, j], rcond=None)[0]
            np.testing.assert_allclose(weights[parents, j], best, atol=0.01)
    asked = [message for message, _ in wiretap if isinstance(message, messages.Refit)]
    assert [message.number for message in asked] == list(range(1, REFIT_STEPS + 1))
    assert type(wiretap[-1][0]).__name__ == "Finish"


@pytest.fixture
def always_refitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refit whatever its noise."""
    monkeypatch.setattr("privfcd.algorithms.fed_sparse.refit._useless", lambda *_: False)


@pytest.mark.usefixtures("always_refitted")
def test_the_refit_is_charged_up_front_and_draws_what_was_paid(tables: Tables, model: Model, spy: Any) -> None:
    z, n = 3.0, 200
    made = tables(budget=Budget(rho=1e9), noise=spy, bounds=9.0)
    changes = {"smoothness": [2.0, 3.0, 4.0, 5.0], "clip": 600.0, "noise_multiplier": z, "refit_share": 0.1}
    fitted = model(rounds=20, updates=20, threshold=0.05, **changes).fit(made)
    multiplier = z * math.sqrt(REFIT_STEPS * 0.9 / (2 * 0.1 * 400))
    for report in fitted.privacy_report_:
        part = next(part for part in report.parts if part.label == REFIT)
        assert part.planned == part.drawn == REFIT_STEPS
        assert f"{multiplier:.6g}"[:6] in part.event
    draws = [draw for draw in spy.draws if draw.key[1:2] == (0,)]
    assert len(draws) == 3 * REFIT_STEPS and len({draw.key for draw in draws}) == len(draws)
    for draw in draws:
        sensitivity = 2 * math.sqrt(draw.value.size) / n
        assert multiplier <= float(draw.scale) / sensitivity <= multiplier * (1 + 1e-6)
        assert (np.abs(draw.value) <= 1).all(), "in units of the clips"
    assert REFIT_CLIP > 1


def test_shares_of_the_run_include_the_refits(tables: Tables, model: Model) -> None:
    made = tables(budget=Budget(rho=0.01), bounds=9.0)
    settings = settings_of(model(refit_share=0.2), made)
    plan = plan_releases(made[0], settings)
    costs = {}
    for part in plan.parts:
        multiplier = getattr(part.event, "noise_multiplier", None)
        costs[part.label] = part.count * (part.event.eta**2 / 8 if multiplier is None else 1 / (2 * multiplier**2))
    assert costs[REFIT] / sum(costs.values()) == pytest.approx(0.2, rel=1e-6)
    assert sum(costs.values()) == pytest.approx(0.01, rel=1e-3)


def test_rows_are_not_read_before_every_party_is_charged_and_refits_only_as_agreed(
    tables: Tables, model: Model, arm: Callable[..., PrivateTable], rows_touched: type[BaseException]
) -> None:
    made = [arm(table) for table in tables(budget=PRIVATE, bounds=9.0)]
    with pytest.raises(rows_touched):
        model(refit_share=0.1, loss=HuberLoss(1.0), mechanisms="mangold-proven").fit(made)
    assert all(table.ledger.spent()["epsilon"] > 0 for table in made)
    from privfcd.algorithms.fed_sparse.party import FedSparseParty

    party = FedSparseParty(tables()[0], 0)
    with pytest.raises(PartyFailed):
        party.answer(messages.Refit(1, SparseMatrix.of(np.eye(4))))
    party.answer(messages.Offer(settings_of(model(), tables()), ("a", "b", "c", "d")))
    party.answer(messages.Charge())
    party.answer(messages.Start(False))
    party.answer(messages.Configure(None, None))
    with pytest.raises(PartyFailed, match="not agreed upon"):
        party.answer(messages.Refit(1, SparseMatrix.of(np.eye(4))))


def test_implied_moments_are_those_of_the_model() -> None:
    weights = np.array([[0, 1.5, 0], [0, 0, -0.7], [0, 0, 0]])
    inverse = np.linalg.inv(np.eye(3) - weights)
    moments = inverse.T @ inverse
    np.testing.assert_allclose(implied_moments(weights, np.diag(moments)), moments, rtol=1e-12)
    assert np.diag(implied_moments(weights, np.array([1.0, 2.0, 9.0]))) == pytest.approx([1.0, 2.0, 9.0])


def test_small_consensus_weights_are_not_sent(
    tables: Tables, model: Model, wiretap: list[tuple[Any, list[Any]]]
) -> None:
    roomy = {"budget": Budget(rho=1e9), "bounds": 9.0}
    few = model(rounds=6, updates=12, keep=0.1, noise_multiplier=20.0, clip=60.0).fit(tables(**roomy))
    sent = [m.weights.values for m, _ in wiretap if isinstance(m, messages.Round | messages.Finish)]
    assert all((np.abs(values) >= 0.1).all() for values in sent)
    many = model(rounds=6, updates=12, keep=0.0, noise_multiplier=20.0, clip=60.0).fit(tables(**roomy))
    assert few.bytes_exchanged_ < many.bytes_exchanged_
    assert default_keep(math.inf) == 0 < default_keep(1.0)


@pytest.mark.parametrize("budget", [None, PRIVATE])
def test_workers_change_nothing(tables: Tables, model: Model, budget: Budget | None) -> None:
    one, three = (model(workers=workers, refit_share=0.05).fit(tables(budget=budget)) for workers in (1, 3))
    np.testing.assert_array_equal(one.dropped_.weights, three.dropped_.weights)
    assert one.bytes_exchanged_ == three.bytes_exchanged_ and one.privacy_spent_ == three.privacy_spent_
    assert [row["h"] for row in one.history_] == [row["h"] for row in three.history_]
    with pytest.raises(InvalidParameter, match="workers must be"):
        model(workers=0).fit(tables())


def test_compiled_loops_change_nothing(tables: Tables, model: Model) -> None:
    pytest.importorskip("numba")
    plain, quick = (model(fast=fast, refit_share=0.05).fit(tables(budget=PRIVATE)) for fast in (False, True))
    np.testing.assert_array_equal(plain.dropped_.weights, quick.dropped_.weights)
    assert plain.adjacency_matrix_.any()


@pytest.mark.parametrize("budget", [None, Budget(epsilon=2000, delta=1e-5)])
def test_another_loss_works_end_to_end_and_outliers_pull_it_less(
    tables: Tables, model: Model, parts: list[np.ndarray], budget: Budget | None
) -> None:
    """One record in fifty has a wrong sign and a hundredfold size in column c, which has no children."""
    spoilt = []
    for part in parts:
        rows = part.copy()
        rows[::50, 2] *= -100
        spoilt.append(rows)
    known = None if budget is None else [1.0, 3.3, 6.0, 1.7]
    shared = {"rounds": 12, "updates": 24, "smoothness": known, "refit_share": 0.05, "step": 1.0}
    errors = {}
    for loss in ("squared", HuberLoss(1.5)):
        fitted = model(loss=loss, l1=0.02, **shared).fit(tables(spoilt, budget=budget, bounds=9.0))
        errors[str(loss)] = abs(fitted.adjacency_matrix_[1, 2] + 1.2)
    if budget is None:
        assert errors[str(HuberLoss(1.5))] < 0.3 < errors["squared"]
    else:
        assert errors[str(HuberLoss(1.5))] < 0.3


def test_a_wide_huber_loss_is_the_squared_one(tables: Tables, model: Model) -> None:
    square, huber = (
        model(loss=loss, rounds=8, updates=8, refit_share=0.05).fit(tables()) for loss in ("squared", HuberLoss(1e6))
    )
    np.testing.assert_allclose(square.adjacency_matrix_, huber.adjacency_matrix_, atol=1e-8)
    private = [model(loss=loss).fit(tables(budget=PRIVATE)).dropped_.weights for loss in ("squared", HuberLoss(1e6))]
    np.testing.assert_allclose(private[0], private[1], atol=1e-9)
    assert default_clip(np.array([4.0, 9.0]), 1.0, HuberLoss(1.0)) == default_clip(np.array([4.0, 9.0]), 1.0) / 2


def test_moments_give_what_open_tables_give_and_cost_nothing(
    tables: Tables, model: Model, parts: list[np.ndarray]
) -> None:
    for refit_share in (0.0, 0.05):
        shared = {"rounds": 10, "updates": 12, "refit_share": refit_share}
        from_rows = model(**shared).fit(tables())
        fitted = model(**shared).fit([exact(part) for part in parts])
        np.testing.assert_allclose(fitted.adjacency_matrix_, from_rows.adjacency_matrix_, atol=1e-7)
        assert fitted.bytes_exchanged_ == from_rows.bytes_exchanged_
    assert fitted.privacy_report_ is None and fitted.privacy_spent_ == (math.inf, 0.0)
    assert list(fitted.feature_names_in_) == ["a", "b", "c", "d"] and len(fitted.history_) == 10
    one = model(rounds=30, updates=30, l1=0.02).fit(exact(np.concatenate(parts)))
    assert set(one.causal_graph_.edges) == TRUE_EDGES


def test_noisy_moments_are_repaired_and_other_columns_order_is_aligned(model: Model, parts: list[np.ndarray]) -> None:
    given = exact(np.concatenate(parts))
    noisy = Moments(given.matrix - 3.0 * np.eye(4), given.rows, given.columns, (NoiseTerm(1.0),))
    assert np.linalg.eigvalsh(noisy.matrix).min() < 0
    assert np.linalg.eigvalsh(MomentParty(noisy, "m")._moments.matrix).min() > -1e-9
    assert np.isfinite(model().fit(noisy).history_[-1]["h"])
    turned = given.carried(np.eye(4)[[2, 0, 3, 1]], ["c", "a", "d", "b"])
    both = model(rounds=20, updates=20, l1=0.02).fit([given, turned])
    assert set(both.causal_graph_.edges) == TRUE_EDGES


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": HuberLoss(1.0)}, "loss must be 'squared' for moments"),
        ({"clip": 5.0}, "clip must be left out for moments"),
        ({"release": "everything"}, "release must be one of coordinates, preconditioned, auto"),
        ({"mechanisms": "roulette"}, "mechanisms must be one of gumbel-gaussian"),
        ({"refit_share": 1.0}, "refit_share must be"),
        ({"refit_share": 0.8}, "must add up to less than 1"),
        ({"keep": -0.1}, "keep must be"),
        ({"loss": "cubic"}, "loss must be"),
        ({"fast": 2}, "fast must be"),
    ],
    ids=str,
)
def test_bad_options_are_refused(model: Model, parts: list[np.ndarray], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        model(**changes).fit(exact(parts[0]))


@pytest.mark.parametrize("mechanisms", ["mangold-published", "mangold-proven"])
@pytest.mark.parametrize("budget", [Budget(epsilon=5, delta=1e-5), Budget(epsilon=0.5, delta=1e-9)])
def test_mangolds_variant_is_charged_as_what_is_proven(
    tables: Tables, model: Model, mechanisms: str, budget: Budget, spy: Any
) -> None:
    pairs, n, total = 12, 200, np.array([2.0, 3.0, 4.0, 5.0]) + 1
    roomy = Budget(epsilon=2 * budget.epsilon, delta=2 * budget.delta)
    made, again = (tables(budget=roomy, bounds=9.0, noise=noise) for noise in (spy, SimulatedNoise(1)))
    shared = {"smoothness": [2.0, 3.0, 4.0, 5.0], "clip": 6.0, "refit_share": 0.1, "epsilon": budget.epsilon}
    fitted = model(mechanisms=mechanisms, **shared).fit(made)
    plan = plan_releases(again[0], settings_of(model(mechanisms=mechanisms, **shared), again))
    z = plan.noise_multiplier
    events = {part.label: part.event for part in plan.parts}
    assert events[SELECTION].epsilon == pytest.approx(2 / z + 2.0**-19) and events[SELECTION].delta == 0
    assert events[UPDATE].noise_multiplier == pytest.approx(z)
    loop = [draw for draw in spy.draws if len(draw.key) == 2]
    assert {draw.kind for draw in loop} == {"laplace"} and len(loop) == 3 * 2 * pairs
    score = 2 * 6.0 / (n * math.sqrt(4 * total.sum()))
    for draw in loop[::2]:
        assert z <= float(draw.scale) / score <= z * (1 + 1e-5) and draw.value.size == 12
    entries = 2 * 6.0 * np.sqrt(total / (4 * total.sum())) / n
    for draw in loop[1::2]:
        ratios = float(draw.scale) / entries
        assert ((ratios >= z) & (ratios <= z * (1 + 1e-6))).any()
    if mechanisms == "mangold-published":
        claimed = unequal_advanced_composition([(1 / z, 2 * pairs)], budget.delta)
        assert claimed <= budget.epsilon * math.sqrt(0.9) * (1 + 1e-9)
        assert z == pytest.approx(published_multiplier(budget.epsilon * math.sqrt(0.9), budget.delta, pairs))
        assert fitted.privacy_report_[0].epsilon > budget.epsilon, "more than published, and said so"
    else:
        assert fitted.privacy_report_[0].epsilon == pytest.approx(budget.epsilon, rel=1e-6)
    charged = made[0].ledger.spent()["epsilon"]
    assert charged == pytest.approx(fitted.privacy_report_[0].epsilon, rel=1e-6)
    from privfcd.accounting import compose

    whole = compose((part.event, part.count) for part in plan.parts)
    assert charged == pytest.approx(epsilon_of(whole, budget.delta), rel=1e-6)


def test_published_noise_needs_a_budget_for_what_is_proven(tables: Tables, model: Model) -> None:
    made = tables(budget=Budget(epsilon=5, delta=1e-5), bounds=9.0)
    with pytest.raises(BudgetExceeded):
        model(mechanisms="mangold-published", rounds=1, updates=50, smoothness=[2.0] * 4, clip=5.0).fit(made)
    with pytest.raises(InvalidParameter, match="needs epsilon and delta"):
        model(mechanisms="mangold-published").fit(tables(budget=Budget(rho=1.0), bounds=9.0))
    assert not any(table.ledger.entries() for table in made)


def test_second_moments_may_be_paid_for_instead(tables: Tables, model: Model, many: list[np.ndarray]) -> None:
    budget = Budget(epsilon=20, delta=1e-6)
    for release in ("preconditioned", "auto"):
        made = tables(many, budget=budget)
        fitted = model(release=release, rounds=30, updates=30, l1=0.02).fit(made)
        assert set(fitted.causal_graph_.edges) == TRUE_EDGES
        assert len(fitted.privacy_report_) == 2 and 0 < fitted.privacy_spent_[0] <= 20
        assert SELECTION not in {part.label for part in fitted.privacy_report_[0].parts}
        assert fitted.bytes_exchanged_ > 0
    made = tables(many, budget=budget)
    short: dict[str, Any] = {"release": "auto", "rounds": 2, "updates": 2}
    assert model(**short).fit(tables()).rule_["release"] == "coordinates"
    assert model(**short, loss=HuberLoss(1.0)).fit(made).rule_["release"] == "coordinates"
    rule = model(**short).fit(tables(many, budget=budget)).rule_
    assert rule["release"] == min(rule["predicted noise"], key=lambda name: rule["predicted noise"][name]) and rule["why"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise_multiplier": 3.0}, "noise_multiplier must be left out with release='preconditioned'"),
        ({"mechanisms": "mangold-proven"}, "mechanisms must be left out with release='preconditioned'"),
        ({"clip": 5.0}, "clip must be left out for moments"),
        ({"loss": HuberLoss(1.0)}, "loss must be 'squared' for moments"),
        ({"smoothness": [1.0, 2.0]}, "smoothness must have one number for each of 4 columns"),
    ],
    ids=str,
)
def test_second_moments_are_refused_before_it_is_paid_for(
    tables: Tables, model: Model, arm: Callable[..., PrivateTable], changes: dict[str, Any], message: str
) -> None:
    made = [arm(table) for table in tables(budget=PRIVATE)]
    with pytest.raises(InvalidParameter, match=message):
        model(release="preconditioned", **changes).fit(made)
    assert not any(table.ledger.entries() for table in made)


def test_a_moment_party_keeps_to_the_protocol(model: Model, parts: list[np.ndarray], tables: Tables) -> None:
    party = MomentParty(exact(parts[0]), "m")
    for message in (messages.Configure(None, None), messages.Round(1, SparseMatrix.of(np.zeros((4, 4))))):
        with pytest.raises(PartyFailed):
            party.answer(message)
    with pytest.raises(PartyFailed, match="does not know"):
        party.answer(messages.Quote(1, True))
    settings = settings_of(model(), tables())
    assert party.answer(messages.Offer(settings, ("a", "b", "c", "d"))) == messages.Quote(200, False)
    assert party.answer(messages.Start(False)) == messages.Started(None, None)
    assert SQUARED.name == settings.loss.name and isinstance(SimulatedNoise(1), SimulatedNoise)


class Recorder:
    """Noise that writes down (or gives again) every answer, with the exact value and the scale behind it."""

    secure, label = False, "recorded"

    def __init__(self, script: list[Any] | None = None) -> None:
        self.script, self.draws = script, []  # type: ignore[var-annotated]

    def stream(self, *key: int) -> Recorder:
        self._inner, self._key = SimulatedNoise(3).stream(*key), key
        return self

    def gaussian(self, value: Any, scale: Any) -> Any:
        return self._answer("gaussian", value, scale, lambda: self._inner.gaussian(value, scale))

    def laplace(self, value: Any, scale: Any) -> Any:
        return self._answer("laplace", value, scale, lambda: self._inner.laplace(value, scale))

    def select(self, scores: Any, scale: float) -> Any:
        return self._answer("select", scores, scale, lambda: self._inner.select(scores, scale))

    def _answer(self, kind: str, value: Any, scale: Any, draw: Callable[[], Any]) -> Any:
        answer = draw() if self.script is None else self.script[len(self.draws)][3]
        self.draws.append((kind, np.copy(value), np.copy(scale), answer, self._key))
        return answer


ABSURD = [0.0, 5e-324, 1e-100, 1.0, -1.0, 40.0, -3e3, 1e30, -1e150, 1e300, -1.7e308]


@pytest.mark.parametrize("loss", ["squared", HuberLoss(0.8)])
@pytest.mark.parametrize("mechanisms", ["gumbel-gaussian", "mangold-proven"])
@pytest.mark.usefixtures("always_refitted")
def test_along_one_transcript_every_answers_loss_is_within_its_event(
    tables: Tables, model: Model, loss: Any, mechanisms: str
) -> None:
    """Neighbouring tables that give the same answers: each exact value moves less than was paid for, refits included."""
    rng = np.random.default_rng(6)
    n, z, share = 12, 3.0, 0.2
    cost = 1.0 if mechanisms == "gumbel-gaussian" else 2.5
    multiplier = z * math.sqrt(REFIT_STEPS * (1 - share) / (2 * share * cost * 12))
    refits = 0
    for trial in range(12):
        rows = rng.normal(size=(n, 4)) * 3
        neighbour = rows.copy()
        rows[0] = rng.choice(ABSURD, size=4) if trial % 2 else rng.normal(size=4) * 30
        neighbour[0] = -rows[0] if trial % 3 == 0 else rng.choice(ABSURD, size=4) * rng.choice([1.0, -1.0])
        script: list[Any] | None = None
        recorders = []
        for table_rows in (rows, neighbour):
            recorder = Recorder(script)
            options = {"smoothness": [2.0, 3.0, 4.0, 5.0], "noise_multiplier": z, "refit_share": share}
            made = tables([table_rows], budget=Budget(rho=1e9), bounds=3.0, noise=recorder)
            model(loss=loss, mechanisms=mechanisms, clip=40.0, threshold=0.05, **options).fit(made)
            script = recorder.draws
            recorders.append(recorder)
        assert len(recorders[0].draws) == len(recorders[1].draws)
        for one, two in zip(recorders[0].draws, recorders[1].draws, strict=True):
            assert one[0] == two[0] and np.array_equal(one[2], two[2]), "a scale that depends on a record tells on it"
            gap = (one[1] - two[1]) / one[2]
            if len(one[4]) == 3:  # a refit's key
                refits += 1
                assert np.linalg.norm(gap) <= 1 / multiplier * (1 + 1e-9)
            elif one[1].size == 12:  # scores: those of the noisy maximum have the largest taken off
                assert gap.max() - gap.min() <= 2 / z * (1 + 1e-9)
            else:
                assert abs(float(gap)) <= 1 / z * (1 + 1e-9)
    assert refits > 10
