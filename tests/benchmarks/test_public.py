"""The list of public names: what counts as broken, what docstrings lack, and the command that renews the list."""

from __future__ import annotations

import copy
import inspect
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import click
import pytest
from click.testing import CliRunner, Result

import privfcd.accounting
import privfcd.algorithms
from benchmarks.__main__ import studies
from benchmarks.public.docstrings import faults, sections
from benchmarks.public.json_keys import paths
from benchmarks.public.names import Public, signature
from benchmarks.public.snapshot import Snapshot, broken, entry, snapshot
from privfcd.cli.main import cli
from privfcd.deprecation import Renamed, RenamedAttribute, renamed_parameters


@pytest.fixture(scope="module")
def today() -> Snapshot:
    return snapshot()


def edited(names: Snapshot, edit: Callable[[dict[str, Any]], Any]) -> Snapshot:
    """Return a changed copy of a snapshot."""
    answer = copy.deepcopy(names)
    edit(answer)
    return answer


def calibrate(names: Snapshot) -> dict[str, str]:
    found: dict[str, str] = names["modules"]["privfcd.accounting"]["calibrate"]["parameters"]
    return found


def test_a_snapshot_is_plain_json_and_breaks_nothing_of_itself(today: Snapshot) -> None:
    assert json.loads(json.dumps(today)) == today
    assert broken(today, today) == []


def test_what_is_listed(today: Snapshot) -> None:
    modules = today["modules"]
    assert modules["privfcd"]["Budget"] == {"is": "privfcd.accounting.Budget"}
    assert modules["privfcd"]["simulate"] == {"kind": "module", "module": "privfcd.data.simulate"}
    assert modules["privfcd.accounting"]["ZCDpEvent"]["kind"] == "of another package"
    assert modules["privfcd.accounting"]["REPLACE_ONE"] == {"kind": "constant"}
    assert modules["privfcd.accounting"]["Journal"]["kind"] == "protocol"
    assert modules["privfcd.errors"]["BudgetExceeded"]["kind"] == "exception"
    assert calibrate(today) == {
        "epsilon": "by place or name",
        "delta": "by place or name",
        "selections": "by name = 0",
        "gaussians": "by name = 0",
        "laplaces": "by name = 0",
        "sensitivity": "by name = 1.0",
        "accountant": "by name = 'tight'",
    }
    pc = modules["privfcd.algorithms"]["PC"]
    assert "causal_graph_" in pc["results"] and "fit" in pc["members"] and "alpha" in pc["parameters"]
    assert modules["privfcd.accounting"]["Ledger"]["members"]["open"] == "property"
    assert {"edges[].weight", "privacy.parties[].epsilon", "parameters"} <= set(today["json"]["learn"])
    assert not any(key.startswith("parameters.") for key in today["json"]["learn"])
    assert "--epsilon" in today["commands"]["privfcd learn"] and "privfcd ledger verify" in today["commands"]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda now: now["modules"].pop("privfcd.graphs"), "module privfcd.graphs is gone"),
        (lambda now: now["modules"]["privfcd"].pop("learn"), "privfcd.learn is gone"),
        (lambda now: calibrate(now).pop("delta"), "privfcd.accounting.calibrate no longer takes delta"),
        (lambda now: calibrate(now).update(laplaces="by name"), "calibrate asks for laplaces, which had a default"),
        (lambda now: calibrate(now).update(laplaces="by name = 1"), "the default of laplaces was 0, is 1"),
        (lambda now: calibrate(now).update(delta="by name"), "delta was passed by place or name, is passed by name"),
        (lambda now: calibrate(now).update(more="by name"), "calibrate asks for more, which it did not"),
        (
            lambda now: now["modules"]["privfcd.accounting"]["NoisePlan"]["fields"].remove("rho"),
            "privfcd.accounting.NoisePlan.rho is gone",
        ),
        (
            lambda now: now["modules"]["privfcd.algorithms"]["PC"]["results"].remove("causal_graph_"),
            "privfcd.algorithms.PC.causal_graph_ is gone",
        ),
        (
            lambda now: now["modules"]["privfcd.algorithms"]["PC"]["members"].pop("fit"),
            "privfcd.algorithms.PC.fit is gone",
        ),
        (
            lambda now: now["modules"]["privfcd.algorithms"]["PC"]["members"]["fit"].pop("source"),
            "privfcd.algorithms.PC.fit no longer takes source",
        ),
        (
            lambda now: now["modules"]["privfcd.accounting"]["Ledger"]["members"].update(open={}),
            "privfcd.accounting.Ledger.open was a property and is none now",
        ),
        (
            lambda now: now["modules"]["privfcd.accounting"]["calibrate"].update(kind="class"),
            "privfcd.accounting.calibrate was a function and is a class",
        ),
        (lambda now: now["commands"].pop("privfcd demo"), "command `privfcd demo` is gone"),
        (lambda now: now["json"]["learn"].remove("edges[].from"), "`learn --json` no longer prints edges[].from"),
    ],
)
def test_what_breaks_somebodys_program(today: Snapshot, edit: Callable[[Any], Any], said: str) -> None:
    (only,) = broken(today, edited(today, edit))
    assert said in only


def test_another_order_of_what_is_given_by_place(today: Snapshot) -> None:
    def swap(now: Any) -> None:
        names = calibrate(now)
        names["epsilon"] = names.pop("epsilon")

    (only,) = broken(today, edited(today, swap))
    assert only == "privfcd.accounting.calibrate takes its arguments in another order: delta, epsilon"


def test_an_option_that_is_gone(today: Snapshot) -> None:
    before = edited(today, lambda was: was["commands"]["privfcd learn"].append("--never"))
    assert broken(before, today) == ["`privfcd learn` no longer takes --never"]


@pytest.mark.parametrize(
    "edit",
    [
        lambda now: now["modules"].update({"privfcd.more": {}}),
        lambda now: now["modules"]["privfcd"].update(more={"kind": "function", "parameters": {}}),
        lambda now: calibrate(now).update(more="by name = None"),
        lambda now: calibrate(now).update(selections="by place or name = 0"),
        lambda now: calibrate(now).update(more="any more"),
        lambda now: now["modules"]["privfcd.algorithms"]["PC"]["results"].append("more_"),
        lambda now: now["commands"]["privfcd learn"].append("--more"),
        lambda now: now["json"]["learn"].append("more"),
        lambda now: now["modules"]["privfcd.accounting"]["NoisePlan"].update(kind="class"),
    ],
)
def test_what_breaks_nobodys_program(today: Snapshot, edit: Callable[[Any], Any]) -> None:
    assert broken(today, edited(today, edit)) == []


def test_former_names_that_still_work_are_not_gone(today: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    def earlier(was: Any) -> None:
        was["modules"]["privfcd"]["old"] = {"is": "privfcd.accounting.Budget"}
        was["modules"]["privfcd.algorithms"]["PC"]["results"].append("old_")
        names = was["modules"]["privfcd.accounting"]["calibrate"]["parameters"]
        was["modules"]["privfcd.accounting"]["calibrate"]["parameters"] = {"old": names["epsilon"], **names}
        del was["modules"]["privfcd.accounting"]["calibrate"]["parameters"]["epsilon"]

    before = edited(today, earlier)
    assert len(broken(before, today)) >= 3
    monkeypatch.setattr(privfcd, "_RENAMED", {"old": Renamed("privfcd.accounting.Budget", "0.2", "0.3")})
    monkeypatch.setattr(privfcd.algorithms.PC, "old_", RenamedAttribute(Renamed("graph_", "0.2", "0.3")), raising=False)
    taking_both = renamed_parameters({"old": Renamed("epsilon", "0.2", "0.3")})(privfcd.accounting.calibrate)
    monkeypatch.setattr(privfcd.accounting, "calibrate", taking_both)
    assert broken(before, today) == []
    with pytest.warns(DeprecationWarning):
        assert privfcd.old is privfcd.Budget


def test_a_hidden_option_still_works_and_is_not_listed(today: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    learn = cli.get_command(click.Context(cli), "learn")
    assert learn is not None
    hidden = click.Option(["--former"], hidden=True)
    monkeypatch.setattr(learn, "params", [*learn.params, hidden])
    assert "--former" not in snapshot()["commands"]["privfcd learn"]
    before = edited(today, lambda was: was["commands"]["privfcd learn"].append("--former"))
    assert broken(before, today) == []


class Taker:
    """Takes.

    Parameters
    ----------
    first, second : int
        Two.
    *rest : int
        More.
    """

    def __init__(self, first: int, second: int = 2, *rest: int, _hidden: object = None) -> None: ...

    def fit(self, source: int) -> int:
        """Return it.

        Parameters
        ----------
        source : int
            It.
        """
        return source


@dataclass(frozen=True)
class Held:
    """Holds.

    Attributes
    ----------
    value : int
        It.
    """

    value: int


class Spoken(Protocol):
    """A protocol takes nothing."""


def no_docstring(value: int) -> int:
    return value


def says_too_little(value: int, other: int) -> int:
    """Add.

    Parameters
    ----------
    value : int
        One.
    gone : int
        Was here once.
    """
    if other < 0:
        raise ValueError(other)
    return value + other


def test_paths_of_keys_in_json() -> None:
    value = {"a": [{"b": 1}, {"c": {"d": None}}], "rule": {"not": "listed"}, "e": [1, 2]}
    assert list(paths(value)) == ["a", "a[].b", "a[].c", "a[].c.d", "rule", "e"]


def test_sections_of_a_docstring() -> None:
    more = "\n\nReturns\n-------\nint\n    Sum.\n\nNotes\n-----\na: b - c\n"
    text = inspect.cleandoc(Taker.__doc__ or "") + more
    found = sections(text)
    assert found["Parameters"] == ["first", "second", "rest"] and found["Returns"] == ["int"] and "Notes" in found
    assert sections("One line.") == {}


def test_what_docstrings_lack() -> None:
    assert list(faults("Taker", Taker)) == list(faults("Held", Held)) == list(faults("Spoken", Spoken)) == []
    assert list(faults("f", no_docstring)) == ["f has no docstring"]
    assert list(faults("f", says_too_little)) == [
        "f: parameter other is not documented",
        "f: the docstring documents gone, which it does not take",
        "f does not say what it returns",
        "f does not say what it raises",
    ]

    @dataclass
    class Bare:
        value: int

    class Lacking(Taker):
        """Has a method that takes more than it says."""

        def fit(self, source: int, more: int = 0) -> int:
            """Return it."""
            return source

    assert list(faults("Bare", Bare)) == ["Bare has no docstring"]
    assert [text.split(": ")[-1] for text in faults("Lacking", Lacking)] == []  # a method that is not the package's own


def test_signatures_leave_out_who_is_called() -> None:
    assert list(signature(Taker).parameters) == ["first", "second", "rest", "_hidden"]  # type: ignore[union-attr]
    assert list(signature(Taker.fit).parameters) == ["source"]  # type: ignore[union-attr]
    assert list(signature(classmethod(lambda cls, other: other)).parameters) == ["other"]  # type: ignore[union-attr]
    assert list(signature(staticmethod(lambda own: own)).parameters) == ["own"]  # type: ignore[union-attr]
    assert entry(Public("privfcd", "x", 3)) == {"kind": "constant"}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Result]:
    def call(*words: str) -> Result:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return CliRunner().invoke(studies, ["public", str(tmp_path / "names.json"), *words])

    return call


def test_the_command_writes_checks_and_refuses(run: Callable[..., Result], tmp_path: Path) -> None:
    file = tmp_path / "names.json"
    assert run().exit_code == 1  # there is no such file
    assert run("--renew").exit_code == 0 and run().exit_code == 0
    written = json.loads(file.read_text(encoding="utf-8"))

    fewer = edited(written, lambda was: was["modules"]["privfcd"].pop("learn"))
    file.write_text(json.dumps(fewer), encoding="utf-8")
    added = run()
    assert added.exit_code == 1 and "--renew" in added.output
    assert run("--renew").exit_code == 0 and json.loads(file.read_text(encoding="utf-8")) == written

    more = edited(written, lambda was: was["modules"]["privfcd"].update(gone={"kind": "function", "parameters": {}}))
    file.write_text(json.dumps(more), encoding="utf-8")
    for words in ((), ("--renew",)):
        refused = run(*words)
        assert refused.exit_code == 1 and "BROKEN: privfcd.gone is gone" in refused.output
        assert json.loads(file.read_text(encoding="utf-8")) == more
    assert run("--break").exit_code == 2
    assert run("--renew", "--break").exit_code == 0 and json.loads(file.read_text(encoding="utf-8")) == written
