"""Former names of modules, parameters and attributes work, warn at the line that uses them, and end in time."""

from __future__ import annotations

import inspect
import sys
import types
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privfcd.algorithms.base import Estimator
from privfcd.deprecation import (
    Renamed,
    RenamedAttribute,
    current_parameters,
    former_parameters,
    release,
    renamed_name,
    renamed_parameters,
    renamed_value,
)
from privfcd.errors import InvalidParameter

RENAMED = Renamed("new", since="0.2", until="0.3")


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    """A module that renamed `old` to `new`, and moved `moved` to another."""
    made = types.ModuleType("privfcd_renames_for_a_test")
    made.new = object()  # type: ignore[attr-defined]
    table = {"old": RENAMED, "moved": Renamed("privfcd.graphs.is_dag", since="0.2", until="1.0")}
    made.__getattr__ = lambda name: renamed_name(made.__name__, name, table)  # type: ignore[method-assign]
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def the_warning(seen: list[warnings.WarningMessage]) -> str:
    """Return the text of the only warning, which must point at this file."""
    (one,) = seen
    assert issubclass(one.category, DeprecationWarning)
    assert one.filename == __file__
    return str(one.message)


def test_a_renamed_name_of_a_module(module: types.ModuleType) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert module.old is module.new
    assert the_warning(seen) == (
        "privfcd_renames_for_a_test.old is called privfcd_renames_for_a_test.new since privfcd 0.2; "
        "the old name goes in privfcd 0.3"
    )


def test_a_name_that_moved_to_another_module(module: types.ModuleType) -> None:
    from privfcd.graphs import is_dag

    with pytest.warns(DeprecationWarning, match=r"is called privfcd\.graphs\.is_dag since"):
        assert module.moved is is_dag


def test_importing_a_former_name_points_at_the_import(module: types.ModuleType) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        from privfcd_renames_for_a_test import old  # type: ignore[import-not-found]
    assert old is module.new
    assert len(seen) >= 1 and all(one.filename == __file__ for one in seen)


def test_a_name_that_never_was(module: types.ModuleType) -> None:
    with pytest.raises(AttributeError, match="module 'privfcd_renames_for_a_test' has no attribute 'other'"):
        module.other  # noqa: B018


def scaled(value: float, new: float = 1.0, *, keyword: float = 0.0) -> float:
    """Return an affine function."""
    return value * new + keyword


wrapped = renamed_parameters({"old": RENAMED, "former": Renamed("keyword", since="0.2", until="0.4")})(scaled)


def test_former_parameters_are_passed_on_with_a_warning() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert wrapped(3.0, old=2.0) == 6.0
    assert (
        the_warning(seen) == "parameter old of scaled is called new since privfcd 0.2; the old name goes in privfcd 0.3"
    )
    with pytest.warns(DeprecationWarning) as both:
        assert wrapped(3.0, former=1.0, old=2.0) == 7.0
    assert len(both) == 2


def test_new_names_do_not_warn_and_the_signature_shows_them_only() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert wrapped(3.0, new=2.0, keyword=1.0) == wrapped(3.0, 2.0, keyword=1.0) == 7.0
    assert list(inspect.signature(wrapped).parameters) == ["value", "new", "keyword"]
    assert wrapped.__doc__ == scaled.__doc__
    assert set(former_parameters(wrapped)) == {"old", "former"} and former_parameters(scaled) == {}


def test_both_names_at_once_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="old is the former name of new: give new only"):
        wrapped(3.0, old=1.0, new=2.0)
    with pytest.raises(TypeError, match="multiple values"), pytest.warns(DeprecationWarning):
        wrapped(3.0, 1.0, old=2.0)


@pytest.mark.parametrize("table", [{"old": Renamed("nowhere", "0.2", "0.3")}, {"value": RENAMED}])
def test_a_table_that_does_not_fit_the_function_is_refused(table: dict[str, Renamed]) -> None:
    with pytest.raises(InvalidParameter, match="renamed must be from a former name to one of value, new, keyword"):
        renamed_parameters(table)(scaled)


class Learner(Estimator):
    """An estimator that renamed a parameter and a result."""

    edges_ = RenamedAttribute(Renamed("graph_", since="0.2", until="0.3"))

    @renamed_parameters({"old": RENAMED})
    def __init__(self, *, new: int = 1) -> None:
        self.new = new

    def fit(self) -> Learner:
        """Set the result."""
        self.graph_ = [self.new]
        return self


def test_an_estimator_takes_former_names_and_shows_new_ones() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model = Learner(old=3)
    assert the_warning(seen).startswith("parameter old of Learner is called new")
    assert model.get_params() == {"new": 3} and repr(model) == "Learner(new=3)"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model.set_params(old=4)
    assert the_warning(seen).startswith("parameter old of Learner is called new")
    assert model.new == 4
    with pytest.raises(InvalidParameter, match="former name"):
        model.set_params(old=4, new=5)


def test_scikit_learn_clones_it_without_warnings() -> None:
    clone = pytest.importorskip("sklearn.base").clone
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        assert clone(Learner(new=7)).get_params() == {"new": 7}


def test_a_former_result_is_there_when_the_new_one_is() -> None:
    assert not hasattr(Learner(), "edges_")
    model = Learner().fit()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert model.edges_ is model.graph_
    assert the_warning(seen).startswith("Learner.edges_ is called Learner.graph_ since privfcd 0.2")
    assert isinstance(Learner.edges_, RenamedAttribute)


def test_current_parameters_leave_undecorated_functions_alone() -> None:
    assert current_parameters(scaled, {"anything": 1}) == {"anything": 1}


@pytest.mark.parametrize("until", ["0.2", "0.2.5", "0.1"])
def test_an_old_name_lives_for_one_minor_release(until: str) -> None:
    with pytest.raises(InvalidParameter, match=r"until must be at least one minor release after '0\.2\.1'"):
        Renamed("new", since="0.2.1", until=until)


@pytest.mark.parametrize("version", ["", "x", "-1.0", "dev"])
def test_versions_without_a_number_are_refused(version: str) -> None:
    with pytest.raises(InvalidParameter, match="version must be numbers"):
        release(version)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=4), st.sampled_from(["", ".dev1", ".rc2", ".0", ".0.0"]))
def test_versions_are_ordered_as_their_numbers(numbers: list[int], tail: str) -> None:
    assert release(".".join(map(str, numbers)) + tail) == release(".".join(map(str, numbers)))
    padded = tuple(numbers) + (0,) * (6 - len(numbers))
    found = release(".".join(map(str, numbers)))
    assert found + (0,) * (6 - len(found)) == padded


def test_a_former_word_of_a_parameter() -> None:
    words = {"old": RENAMED}

    def use(value: object) -> object:
        return renamed_value("kind", value, words)

    with pytest.warns(DeprecationWarning, match=rf"^kind='old' is called kind='{RENAMED.successor}' since") as caught:
        assert use("old") == RENAMED.successor
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        for other in ("new", None, 3, ["old"]):
            assert use(other) is other
