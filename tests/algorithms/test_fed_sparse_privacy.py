"""What a run pays: 2 K T events and the setup, refused as a whole or charged as a whole, before rows are read."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from privfcd.accounting import ADD_OR_REMOVE_ONE, Budget, epsilon_of
from privfcd.algorithms.fed_sparse import FedSparseBNSL
from privfcd.algorithms.fed_sparse.greedy import SELECTION, UPDATE
from privfcd.algorithms.fed_sparse.plan import BOUNDS, MEAN, SMOOTHNESS
from privfcd.data.private import PrivateTable
from privfcd.errors import BudgetExceeded
from privfcd.mechanisms import SecureNoise, SimulatedNoise

Tables = Callable[..., list[PrivateTable]]
Model = Callable[..., FedSparseBNSL]
T, K, D, N = 3, 4, 4, 200
UNIT = 10**24
ROOMY = Budget(rho=1e9)
CASES = list(itertools.product([None, 9.0], [False, True], [None, [2.0, 3.0, 4.0, 5.0]]))
SHARES = {BOUNDS: 0.05, MEAN: 0.1, SMOOTHNESS: 0.2}


def setup_of(bounds: float | None, center: bool, smoothness: list[float] | None) -> list[str]:
    """The setup releases that a run needs, by the documentation."""
    needed = []
    if bounds is None and (center or smoothness is None):
        needed.append(BOUNDS)
    return needed + [MEAN] * center + [SMOOTHNESS] * (smoothness is None)


def rho_of(setup: list[str], z: float) -> mpmath.mpf:
    """The run's zCDP: K T selections and K T gradients of noise multiplier z, and the setup's shares."""
    with mpmath.workdps(60):
        eta = 2 / mpmath.mpf(repr(z))
        tight = mpmath.log(mpmath.expm1(eta) / eta) - 1 + eta / mpmath.expm1(eta)
        selection = min(tight, eta**2 / 8)
        rest = 1 - mpmath.fsum(repr(SHARES[label]) for label in setup)
        total = K * T * (selection + 1 / (2 * mpmath.mpf(repr(z)) ** 2))
        for label in setup:
            multiplier = mpmath.mpf(repr(z)) * mpmath.sqrt(rest / (2 * mpmath.mpf(repr(SHARES[label])) * K * T))
            total += 1 / (2 * multiplier**2)
        return total


def spent(tables: list[PrivateTable]) -> list[dict[str, int]]:
    return [{name: units for name, units in table.ledger.spent_units().items() if units} for table in tables]


@pytest.mark.parametrize("z", [0.7, 3.0, 41.71])
@pytest.mark.parametrize(("bounds", "center", "smoothness"), CASES)
def test_the_ledger_holds_the_closed_formula(
    tables: Tables, model: Model, many: Any, bounds: float | None, center: bool, smoothness: Any, z: float
) -> None:
    made = tables(many, budget=ROOMY, bounds=bounds)
    setup = setup_of(bounds, center, smoothness)
    fitted = model(center=center, smoothness=smoothness, noise_multiplier=z).fit(made)
    exact = rho_of(setup, z)
    for table, report in zip(made, fitted.privacy_report_, strict=True):
        units = table.ledger.spent_units()["rho"]
        with mpmath.workdps(60):
            surplus = units / (exact * UNIT) - 1
        assert -1e-13 < surplus < 1e-9, "never less, but for the rounding of the setup's multipliers"
        planned = {part.label: part.planned for part in report.parts}
        assert planned == {**dict.fromkeys(setup, 1), SELECTION: K * T, UPDATE: K * T}
        assert all(part.drawn == part.planned for part in report.parts)
        assert report.rho == pytest.approx(float(exact), rel=1e-9)


def test_the_ledgers_units_are_the_sum_of_the_reported_events(tables: Tables, model: Model) -> None:
    made = tables(budget=ROOMY)
    fitted = model(center=True, noise_multiplier=3.0).fit(made)
    for table, report in zip(made, fitted.privacy_report_, strict=True):
        gaussians, selections = Fraction(0), 0.0
        for part in report.parts:
            value = re.search(r"=([0-9.e+-]+)\)", part.event)
            assert value is not None
            if part.event.startswith("GaussianDpEvent"):
                gaussians += part.planned / (2 * Fraction(value[1]) ** 2)
            else:
                assert part.event.startswith("BoundedRangeDpEvent") and part.label == SELECTION
                eta = mpmath.mpf(value[1])
                bound = mpmath.log(mpmath.expm1(eta) / eta) - 1 + eta / mpmath.expm1(eta)
                selections = float(bound) * part.planned
        units = table.ledger.spent_units()["rho"]
        assert units == pytest.approx(float(gaussians * UNIT) + selections * UNIT, rel=1e-12)
        assert units >= math.ceil(gaussians * UNIT)


@pytest.mark.parametrize("budget", [Budget(rho=2.0), Budget(epsilon=5, delta=1e-5), Budget(epsilon=0.5, delta=1e-9)])
def test_a_run_uses_its_budget_up_and_no_more(tables: Tables, model: Model, many: Any, budget: Budget) -> None:
    made = tables(many, budget=budget)
    fitted = model(center=True).fit(made)
    for table, report in zip(made, fitted.privacy_report_, strict=True):
        units = table.ledger.spent_units()
        if budget.rho is not None:
            assert budget.rho_units * (1 - 1e-6) < units["rho"] <= budget.rho_units
            continue
        assert budget.epsilon is not None
        assert budget.epsilon_units * (1 - 1e-6) < units["epsilon"] <= budget.epsilon_units
        assert 0 < units["delta"] <= budget.delta_units
        assert report.epsilon <= budget.epsilon and report.delta <= budget.delta
    assert fitted.privacy_spent_ == max((report.epsilon, report.delta) for report in fitted.privacy_report_)


def test_shares_of_the_setup_are_those_of_the_settings(tables: Tables, model: Model, many: Any) -> None:
    made = tables(many, budget=Budget(rho=0.01))
    report = model(center=True).fit(made).privacy_report_[0]
    costs = {}
    for part in report.parts:
        value = float(re.search(r"=([0-9.e+-]+)\)", part.event)[1])  # type: ignore[index]
        costs[part.label] = part.planned * (value**2 / 8 if part.label == SELECTION else 1 / (2 * value**2))
    for label, share in SHARES.items():
        assert costs[label] / sum(costs.values()) == pytest.approx(share, rel=1e-6)


def test_a_run_may_be_given_a_part_of_the_budget(tables: Tables, model: Model, many: Any) -> None:
    made = tables(many, budget=Budget(epsilon=5, delta=1e-5))
    first = model(epsilon=1.0).fit(made)
    assert all(0.999 < table.ledger.spent()["epsilon"] <= 1 for table in made)
    assert all(table.ledger.spent()["delta"] == pytest.approx(2e-6) for table in made)
    assert first.privacy_spent_[0] <= 1
    second = model(delta=1e-6).fit(made)
    assert second.privacy_spent_[0] <= 4.001 and second.privacy_spent_[1] == 1e-6
    assert all(table.ledger.spent()["epsilon"] <= 5 for table in made)
    before = spent(made)
    with pytest.raises(BudgetExceeded):
        model(epsilon=1.0).fit(made)
    assert spent(made) == before


def test_draws_are_what_was_paid_and_each_stream_is_used_once(tables: Tables, model: Model, spy: Any) -> None:
    z, clip, smooth = 3.0, 6.0, np.array([2.0, 3.0, 4.0, 5.0])
    model(center=True, noise_multiplier=z).fit(tables(budget=ROOMY, noise=spy))
    assert len(set(spy.keys)) == len(spy.keys) == 3 * (T + 3)
    spy.keys.clear()
    spy.draws.clear()
    made = tables(budget=ROOMY, noise=spy, bounds=9.0)
    model(center=True, noise_multiplier=z, clip=clip, smoothness=smooth.tolist(), rho2=1.0).fit(made)
    assert len(set(spy.keys)) == len(spy.keys) == 3 * (T + 1), "a stream for each party and round, and each setup"
    by_party: dict[int, list[Any]] = {}
    for draw in spy.draws:
        by_party.setdefault(draw.key[0], []).append(draw)
    totals = smooth + 1.0
    score = 2 * clip / (N * math.sqrt(D * totals.sum()))
    entries = 2 * clip * np.sqrt(totals / (D * totals.sum())) / N
    mean = z * math.sqrt(0.9 / (2 * 0.1 * K * T))
    for draws in by_party.values():
        setup, loop = draws[0], draws[1:]
        assert setup.kind == "gaussian" and setup.value.shape == (D,)
        assert float(setup.scale) >= mean * 2 * math.sqrt(D) / N
        assert [draw.kind for draw in loop] == ["select", "gaussian"] * (K * T)
        for draw in loop[::2]:
            assert z <= float(draw.scale) / score <= z * (1 + 1e-5) and draw.value.shape == (D * (D - 1),)
        for draw in loop[1::2]:
            ratios = float(draw.scale) / entries
            assert ((ratios >= z) & (ratios <= z * (1 + 1e-6))).any(), "the scale of one row's entries"
            assert float(draw.scale) >= z * entries.min()
    assert len(by_party) == 3


@pytest.mark.parametrize("budget", [ROOMY, Budget(epsilon=5, delta=1e-5), None])
def test_the_journal_adds_up(tables: Tables, model: Model, budget: Budget | None) -> None:
    made = tables(budget=budget)
    fitted = model(center=True).fit(made)
    for table, report in zip(made, fitted.privacy_report_, strict=True):
        entries = table.ledger.entries()
        assert [entry.kind for entry in entries[:1]] == ["reserve"]
        draws = [entry for entry in entries if entry.kind == "draws"]
        assert len(draws) == T, "one line a round"
        for part in report.parts:
            lines = [re.findall(rf"(\d+) {re.escape(part.label)}", entry.label) for entry in draws]
            noted = sum(int(count) for line in lines for count in line)
            assert noted == part.drawn == part.planned
        total: dict[str, int] = {}
        for entry in entries:
            for account, units in entry.spent.items():
                total[account] = total.get(account, 0) + units
        assert {name: units for name, units in total.items() if units} == spent([table])[0]


@pytest.mark.parametrize("private", [True, False])
def test_the_report_says_what_was_promised(tables: Tables, model: Model, private: bool) -> None:
    budget = Budget(epsilon=5, delta=1e-5) if private else None
    made = tables(budget=budget, bounds=9.0)
    fitted = model(center=True, clip=7.0).fit(made)
    for table, report in zip(made, fitted.privacy_report_, strict=True):
        text = str(report)
        assert report.party == table.name and repr(table.name) in text
        expected = {"bounds": [9.0] * 4, "clip": 7.0, "rows": N, "columns": ["a", "b", "c", "d"]}
        assert report.declared == expected
        for part in report.parts:
            assert f"{part.drawn} of {part.planned} x {part.label}" in text
        if private:
            assert report.epsilon == pytest.approx(5, rel=1e-6) and report.delta == 1e-5
            assert report.epsilon == epsilon_of(_event(table), 1e-5, table.ledger.accountant)
            assert "replace one record" in text and "SIMULATED" in text and "NO PRIVACY" not in text
            assert report.pure_epsilon == math.inf and len(report.assumptions) >= 4
        else:
            assert report.epsilon == math.inf and report.rho == math.inf and report.as_dict()["epsilon"] == "inf"
            assert "NO PRIVACY" in text and all("NonPrivate" in part.event for part in report.parts)


def _event(table: PrivateTable) -> Any:
    import dp_accounting as dp

    from privfcd.accounting import BoundedRangeDpEvent

    names = {name: getattr(dp, name) for name in dir(dp) if name.endswith("DpEvent")}
    return eval(table.ledger.entries()[0].event, {**names, "BoundedRangeDpEvent": BoundedRangeDpEvent})


def test_a_secure_run_says_so_and_two_of_them_differ(tables: Tables, model: Model) -> None:
    seen: list[np.ndarray] = []
    runs = [
        model(rounds=1, updates=2, clip=50.0).fit(
            tables(budget=Budget(epsilon=100, delta=1e-5), bounds=9.0, noise=SecureNoise()),
            on_round=lambda record: seen.append(record.weights),
        )
        for _ in range(2)
    ]
    text = str(runs[0].privacy_report_[0])
    assert runs[0].privacy_report_[0].secure and "secure" in text and "SIMULATED" not in text
    assert len(seen) == 2 and seen[0].any() and not np.array_equal(*seen)


def test_an_open_party_among_private_ones_is_reported_as_open(tables: Tables, model: Model) -> None:
    made = tables(budget=[Budget(epsilon=50, delta=1e-5), None, Budget(rho=2.0)], bounds=9.0)
    fitted = model().fit(made)
    epsilons = [report.epsilon for report in fitted.privacy_report_]
    assert epsilons[0] <= 50 and epsilons[1] == math.inf and epsilons[2] < math.inf
    assert fitted.privacy_spent_[0] == math.inf


def test_a_run_does_not_depend_on_values_beyond_declared_bounds(
    tables: Tables, model: Model, parts: list[np.ndarray]
) -> None:
    """Setup answers are bounded by construction: a record of 1e300 counts like one at the bounds."""
    far, near = [part.copy() for part in parts], [part.copy() for part in parts]
    far[0][0], near[0][0] = 1e300, 9.0
    answers = [
        model(center=True, rounds=1, updates=1, clip=5.0).fit(tables(rows, budget=ROOMY, bounds=9.0)).history_[0]["h"]
        for rows in (far, near)
    ]
    assert np.isfinite(answers).all()


class Recorder:
    """Noise that writes down (or gives again) every answer, with the exact value and the scale behind it."""

    secure, label = False, "recorded"

    def __init__(self, script: list[Any] | None = None) -> None:
        self.script, self.draws = script, []  # type: ignore[var-annotated]

    def stream(self, *key: int) -> Recorder:
        self._inner = SimulatedNoise(3).stream(*key)
        return self

    def gaussian(self, value: Any, scale: Any) -> Any:
        return self._answer("gaussian", value, scale, lambda: self._inner.gaussian(value, scale))

    def select(self, scores: Any, scale: float) -> Any:
        return self._answer("select", scores, scale, lambda: self._inner.select(scores, scale))

    def _answer(self, kind: str, value: Any, scale: Any, draw: Callable[[], Any]) -> Any:
        answer = draw() if self.script is None else self.script[len(self.draws)][3]
        self.draws.append((kind, np.copy(value), np.copy(scale), answer))
        return answer


ABSURD = [0.0, 5e-324, 1e-100, 1.0, -1.0, 40.0, -3e3, 1e30, -1e150, 1e300, -1.7e308]


@pytest.mark.parametrize(("bounds", "smoothness"), [(None, None), (3.0, None), (3.0, [2.0, 3.0, 4.0, 5.0])])
def test_along_one_transcript_every_answers_loss_is_within_its_event(
    tables: Tables, model: Model, bounds: float | None, smoothness: list[float] | None
) -> None:
    """The whole run, on neighbouring tables that give the same answers: each exact value moves less than was paid for.

    This is what adaptive composition asks for: given the same past, scales are the same, and the values behind the next
    answer are no further apart than its event says.
    """
    rng = np.random.default_rng(5)
    n, z = (12 if bounds else 150), 3.0
    for trial in range(30):
        rows = rng.normal(size=(n, D)) * 3
        neighbour = rows.copy()
        rows[0] = rng.choice(ABSURD, size=D) if trial % 2 else rng.normal(size=D) * 30
        neighbour[0] = -rows[0] if trial % 3 == 0 else rng.choice(ABSURD, size=D) * rng.choice([1.0, -1.0])
        first = Recorder()
        script: list[Any] | None = None
        recorders = []
        for table_rows in (rows, neighbour):
            recorder = first if script is None else Recorder(script)
            made = tables([table_rows], budget=ROOMY, bounds=bounds, noise=recorder)
            fitted = model(center=True, smoothness=smoothness, noise_multiplier=z).fit(made)
            script = recorder.draws
            recorders.append(recorder)
        report = fitted.privacy_report_[0]
        setup = [part for part in report.parts if part.label not in (SELECTION, UPDATE)]
        multipliers = [float(re.search(r"=([0-9.e+-]+)\)", part.event)[1]) for part in setup]  # type: ignore[index]
        assert len(recorders[0].draws) == len(recorders[1].draws) == len(setup) + 2 * K * T
        for number, (one, two) in enumerate(zip(recorders[0].draws, recorders[1].draws, strict=True)):
            assert one[0] == two[0] and np.array_equal(one[2], two[2]), "a scale that depends on a record tells on it"
            gap = (one[1] - two[1]) / one[2]
            if one[0] == "select":
                assert gap.max() - gap.min() <= 2 / z * (1 + 1e-9)
            else:
                multiplier = multipliers[number] if number < len(setup) else z
                assert np.linalg.norm(gap) <= 1 / multiplier * (1 + 1e-9)


def test_a_run_on_a_rho_budget_reports_at_the_delta_that_it_was_given(tables: Tables, model: Model) -> None:
    fitted = model(epsilon=1.0, delta=1e-6).fit(tables(budget=Budget(rho=2.0), bounds=9.0))
    assert fitted.privacy_spent_[1] == 1e-6 and fitted.privacy_spent_[0] == pytest.approx(1.0, rel=1e-3)


def test_the_promise_is_worded_for_the_relation(tables: Tables, model: Model) -> None:
    made = tables(budget=Budget(epsilon=50, delta=1e-5), bounds=9.0, relation=ADD_OR_REMOVE_ONE, declared_rows=250)
    report = model().fit(made).privacy_report_[0]
    assert "had been another one" not in str(report) and "had been absent, or one more present" in str(report)
    assert "the number of records is not public" in str(report)
    assert report.declared["rows"] == 250, "the number that was declared, not the true one"
