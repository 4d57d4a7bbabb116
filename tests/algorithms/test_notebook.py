"""What notebooks show, and scikit-learn's conventions, for every estimator."""

from __future__ import annotations

import copy
import gc
import pickle
from html.parser import HTMLParser
from itertools import pairwise
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import networkx as nx
import numpy as np
import pytest

import privfcd as pf
from privfcd.algorithms.base import Estimator
from privfcd.algorithms.notebook import changed_parameters, estimator_html
from privfcd.data.private import PrivateTable
from privfcd.markup import card, escape, folded, paragraph, table

ESTIMATORS: list[tuple[type[Any], dict[str, Any]]] = [
    (pf.FedSparseBNSL, {"rounds": 3, "updates": 4}),
    (pf.FedSparseBNSL, {"rounds": 3, "updates": 4, "release": "preconditioned"}),
    (pf.FedBNSL, {"rounds": 3}),
    (pf.NOTEARS, {"max_iter": 3}),
    (pf.EqualVarianceSearch, {}),
    (pf.PC, {}),
    (pf.GES, {}),
    (pf.FedACD, {}),
    (pf.PERI, {}),
    (pf.IPERI, {}),
]
IDS = [cls.__name__ + "-".join(["", *map(str, options.values())]) for cls, options in ESTIMATORS]
CLASSES = sorted({cls for cls, _ in ESTIMATORS}, key=lambda cls: cls.__name__)
NAMES = ["<b>bold</b>", 'a"quote', "&amp;", "plain"]
MARK = 1234.56789012345  # a value of one cell, to be looked for in what is kept


def tables(budget: pf.Budget | None = None, seed: int = 1, columns: list[str] = NAMES) -> list[PrivateTable]:
    parts = pf.simulate.linear_gaussian(len(columns), parties=2, rows=700, seed=seed).tables
    made = []
    for k, rows in enumerate(parts):
        rows[0, 0] = MARK
        made.append(
            pf.PrivateTable(
                rows, columns=columns, name=f"ward <{k}>", budget=budget, bounds=9.0, noise=pf.SimulatedNoise(k)
            )
        )
    return made


class Checked(HTMLParser):
    """Elements are closed in order, and none is one that a name tried to open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag not in ("b", "script", "img")
        assert not any(name.startswith("on") or name in ("href", "src") for name, _ in attrs)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        assert tag in ("path", "rect", "polygon", "circle")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def text_of(html: str) -> str:
    parser = Checked()
    parser.feed(html)
    parser.close()
    assert parser.open == []
    return " ".join(parser.text)


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    """Every estimator, fitted to private tables."""
    budget = pf.Budget(epsilon=20, delta=1e-5)
    return {name: cls(**options).fit(tables(budget)) for name, (cls, options) in zip(IDS, ESTIMATORS, strict=True)}


@pytest.mark.parametrize("name", IDS)
def test_a_fitted_estimator_shows_its_graph_and_its_promises(fitted: dict[str, Any], name: str) -> None:
    model = fitted[name]
    html = model._repr_html_()
    text = text_of(html)
    assert html.count("<svg") == 1 and "fitted to 4 columns" in text and type(model).__name__ in text
    for report in model.privacy_report_:
        assert report.headline() in text and "SIMULATED" in report.headline()
    for parameter in changed_parameters(model):
        assert parameter in text
    assert str(MARK) not in html and html == model._repr_html_()


@pytest.mark.parametrize("cls", CLASSES)
def test_an_unfitted_estimator_shows_its_parameters(cls: type[Any]) -> None:
    text = text_of(cls()._repr_html_())
    assert "not fitted" in text and "<svg" not in text and "changed" not in text
    assert all(name in text for name in cls().get_params())
    assert "changed" in text_of(cls(epsilon=3.0)._repr_html_())


def test_stability_is_shown_where_it_was_computed() -> None:
    model = pf.EqualVarianceSearch().fit(tables(pf.Budget(epsilon=20, delta=1e-5)))
    before = text_of(estimator_html(model))

    class Stability:
        def shares(self, graph: nx.DiGraph) -> dict[tuple[str, str], float]:
            return dict.fromkeys(graph.edges, 0.75)

    model.edge_stability_ = Stability()
    assert model.causal_graph_.number_of_edges() > 0
    assert "75 %" in text_of(estimator_html(model)) and "75 %" not in before


def test_edge_stability_and_plans_are_shown() -> None:
    stability = pytest.importorskip("privfcd.algorithms.stability")
    planning = pytest.importorskip("privfcd.runs")
    parts = tables(pf.Budget(epsilon=20, delta=1e-5))
    plan = text_of(planning.plan_run(pf.EqualVarianceSearch(), parts, rehearse=False)._repr_html_())
    assert "ward <0>" in plan and "nothing was charged" in plan and "SIMULATED" in plan
    model = pf.EqualVarianceSearch().fit(parts)
    shown = text_of(stability.edge_stability(model, draws=5)._repr_html_())
    assert "Edges in 5 runs" in shown and "<b>bold</b>" in shown
    assert model._repr_html_().count("<svg") == 1


def test_large_graphs_are_listed_and_not_drawn() -> None:
    model = pf.EqualVarianceSearch()
    names = [f"v{k}" for k in range(130)]
    model.causal_graph_ = nx.DiGraph(pairwise(names))
    model.n_features_in_, model.privacy_report_, model.paid_before_ = 130, None, True
    html = model._repr_html_()
    assert "<svg" not in html and "too many to draw here" in html and "and 69 more" in html
    assert "charged nothing" in html
    model.paid_before_ = False
    assert "paid from their own ledgers" in model._repr_html_() and "charged nothing" not in model._repr_html_()
    model.notes_ = ("a <note>",)
    assert "<li>a &lt;note&gt;</li>" in model._repr_html_()
    model.causal_graph_ = nx.DiGraph()
    assert "No edges." in model._repr_html_()


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (None, "NO PRIVACY, exact answers (epsilon = inf)"),
        (pf.Budget(epsilon=20, delta=1e-5), "SIMULATED"),
        (pf.Budget(rho=0.5), "rho"),
    ],
)
def test_reports_and_moments_are_shown(budget: pf.Budget | None, words: str) -> None:
    model = pf.GES().fit(tables(budget))
    report = model.privacy_report_[0]
    text = text_of(report._repr_html_())
    assert "Privacy report for 'ward <0>'" in text and "What was released" in text
    for name in NAMES:
        assert name in text
    assert words in report.headline() or words in text
    moments = text_of(model.moments_._repr_html_())
    assert "4 x 4" in moments and "1400" in moments
    assert ("none: exact" in moments) == (budget is None)


def test_headlines_round_up() -> None:
    report = pf.EqualVarianceSearch().fit(tables(pf.Budget(epsilon=1, delta=1e-5))).privacy_report_[0]
    shown = report.headline().split("epsilon = ")[1].split(" ")[0]
    assert float(shown) >= report.epsilon


def test_markup_is_escaped() -> None:
    assert escape("<a b='c\"'>&\x00") == "&lt;a b=&#x27;c&quot;&#x27;&gt;&amp;\ufffd"
    assert table([("<", 1)], ("&",)).count("&lt;") == 1
    assert "and 2 more" in table([("a", "b")] * 3, limit=1) and 'colspan="2"' in table([("a", "b")] * 3, limit=1)
    assert card("<", paragraph("<")) == "<div><p><strong>&lt;</strong></p><p>&lt;</p></div>"
    assert folded("<", "<i>") == "<details><summary>&lt;</summary><i></details>"


# scikit-learn's conventions


@pytest.mark.parametrize("cls", CLASSES)
def test_parameters_go_there_and_back(cls: type[Any]) -> None:
    model = cls()
    assert isinstance(model, Estimator)
    params = model.get_params()
    assert cls(**params).get_params() == params and model.set_params(**params) is model
    assert eval(repr(model), vars(pf)).get_params() == params and repr(model) == f"{cls.__name__}()"
    changed = cls(epsilon=2.5, delta=1e-6)
    assert repr(changed) == f"{cls.__name__}(epsilon=2.5, delta=1e-06)"
    assert eval(repr(changed), vars(pf)).get_params() == changed.get_params()
    assert copy.deepcopy(changed).get_params() == changed.get_params()
    with pytest.raises(pf.InvalidParameter, match="parameter must be one of"):
        model.set_params(nonsense=1)
    assert vars(cls()) == {name: getattr(model, name) for name in params}, "nothing but parameters is set by __init__"


def test_parameters_that_are_objects_evaluate_too() -> None:
    model = pf.FedSparseBNSL(loss=pf.Huber(delta=1.5)) if hasattr(pf, "Huber") else pf.FedSparseBNSL(loss="squared")
    assert eval(repr(model), vars(pf)).get_params() == model.get_params()


@pytest.mark.parametrize("name", IDS)
def test_scikit_learn_clones_and_shows_it(fitted: dict[str, Any], name: str) -> None:
    base = pytest.importorskip("sklearn.base")
    from sklearn.utils import estimator_html_repr, get_tags
    from sklearn.utils.validation import check_is_fitted

    model = fitted[name]
    fresh = base.clone(model)
    assert type(fresh) is type(model) and fresh.get_params() == model.get_params()
    assert set(vars(fresh)) == set(fresh.get_params())
    check_is_fitted(model)
    with pytest.raises(Exception, match="not fitted yet"):
        check_is_fitted(fresh)
    assert get_tags(model).estimator_type is None
    assert type(model).__name__ in estimator_html_repr(model)


def reached(thing: object) -> list[object]:
    """Return all objects that can be reached from one, but for modules, classes and functions."""
    seen: dict[int, object] = {}
    passed = (type, ModuleType, FunctionType, BuiltinFunctionType)
    waiting = [thing]
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, passed):
            continue
        seen[id(one)] = one
        waiting += gc.get_referents(one)
    return list(seen.values())


@pytest.mark.parametrize("name", IDS)
def test_a_fitted_estimator_holds_no_rows_and_can_be_stored(fitted: dict[str, Any], name: str) -> None:
    model = fitted[name]
    for thing in reached(vars(model)):
        assert not isinstance(thing, PrivateTable) and "privfcd.ledger.ledger" not in type(thing).__module__
        if isinstance(thing, np.ndarray):
            assert 700 not in thing.shape and 1400 not in thing.shape and not (thing == MARK).any()
    stored = pickle.dumps(model)
    assert np.float64(MARK).tobytes() not in stored and np.float64(MARK).tobytes()[::-1] not in stored
    for back in (pickle.loads(stored), copy.deepcopy(model)):
        assert nx.utils.graphs_equal(back.causal_graph_, model.causal_graph_)
        assert np.array_equal(back.adjacency_matrix_, model.adjacency_matrix_)
        assert back.privacy_spent_ == model.privacy_spent_ and back.get_params() == model.get_params()
        assert set(vars(back)) == set(vars(model)) and back._repr_html_() == model._repr_html_()


@pytest.mark.filterwarnings("ignore:residual variances differ")  # the marked cell's doing
@pytest.mark.parametrize(("cls", "options"), ESTIMATORS, ids=IDS)
def test_fitting_again_forgets_the_first_fit(cls: type[Any], options: dict[str, Any]) -> None:
    other = ["x", "y", "z"]
    model = cls(**options)
    assert model.fit(tables(seed=1)) is model
    model.edge_stability_ = object()
    again = tables(pf.Budget(epsilon=20, delta=1e-5), seed=2, columns=other)
    model.fit(again)
    fresh = cls(**options).fit(tables(pf.Budget(epsilon=20, delta=1e-5), seed=2, columns=other))
    assert set(vars(model)) == set(vars(fresh))
    assert list(model.causal_graph_) == other and model.n_features_in_ == 3
    assert np.array_equal(model.adjacency_matrix_, fresh.adjacency_matrix_)
    assert model.privacy_spent_ == fresh.privacy_spent_
