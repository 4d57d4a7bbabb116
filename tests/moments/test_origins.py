"""Moments say whose noise stands before whose records, however they were pooled, stored or transformed."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privfcd import Budget, PrivateTable, SecureNoise, SimulatedNoise, release_moments
from privfcd.algorithms.inputs import aligned
from privfcd.data.second_moments import table_moments
from privfcd.errors import InvalidParameter
from privfcd.moments import Moments, NoiseTerm, Origin, load_moments, pooled, save_moments
from privfcd.moments.origins import KINDS, named, origins_text, unsaid

ROWS = np.random.default_rng(1).normal(size=(3, 400, 3))
BOTH = Budget(5.0, 1e-6)
OPEN = Origin("open", "none")


def table(k: int, name: str, **options: object) -> PrivateTable:
    return PrivateTable(ROWS[k], name=name, bounds=6.0, **options)  # type: ignore[arg-type]


def mixture() -> list[Moments]:
    """Return the moments of an open party and of two that paid, one of them with a seed."""
    tables = [
        table(0, "open"),
        table(1, "paid", budget=BOTH, noise=SecureNoise()),
        table(2, "seeded", budget=BOTH, noise=SimulatedNoise(1)),
    ]
    return [release_moments([each]).parts[0] for each in tables]


def test_a_release_knows_its_parties() -> None:
    parts = mixture()
    expected = (OPEN, Origin("paid", "secure"), Origin("seeded", "simulated"))
    assert tuple(part.origins[0] for part in parts) == expected
    whole = pooled(parts)
    assert whole.origins == expected and not whole.protected and not whole.exact
    assert "1 party without noise (open)" in whole._repr_html_()
    alone = pooled(parts[1:])
    assert alone.protected and pooled([alone, parts[0]]).origins == (*expected[1:], OPEN)
    one = release_moments([table(0, "open"), table(1, "paid", budget=BOTH)])
    assert one.moments.origins == (OPEN, Origin("paid", "secure"))


def test_every_party_of_a_trusted_sum_is_one() -> None:
    paid = [table(k, f"p{k}", budget=BOTH) for k in range(2)]
    (part,) = release_moments(paid, sum="trusted").parts
    assert part.origins == (Origin("p0", "secure"), Origin("p1", "secure"))
    (part,) = release_moments([table(0, "a"), table(1, "b")], sum="trusted").parts
    assert part.origins == (Origin("a", "none"), Origin("b", "none")) and not part.protected


def test_moments_of_one_table_know_it() -> None:
    assert table_moments(table(0, "open")).origins == (OPEN,)
    paid = table_moments(table(1, "paid", budget=BOTH), epsilon=1.0, delta=1e-7)
    assert paid.origins == (Origin("paid", "secure"),)


@pytest.mark.parametrize(
    "change", ["carried", "repaired", "shrunk", "redrawn", "aligned", "replaced", "stored", "again"]
)
def test_no_operation_forgets_that_a_part_was_exact(change: str, tmp_path: Path) -> None:
    whole = pooled(mixture())
    made = {
        "carried": lambda: whole.carried(np.triu(np.ones((3, 3))), ("u", "v", "w")),
        "repaired": lambda: whole.repaired(0.1),
        "shrunk": whole.shrunk,
        "redrawn": lambda: whole.redrawn(np.random.default_rng(1)),
        "aligned": lambda: aligned(whole, whole.columns[::-1]),
        "replaced": lambda: replace(whole, matrix=2 * whole.matrix),
        "stored": lambda: stored(tmp_path, whole),
        "again": lambda: pooled([pooled([whole])]),
    }[change]()
    assert made.origins == whole.origins and not made.protected


def stored(folder: Path, moments: Moments) -> Moments:
    save_moments(folder / "m.npz", moments)
    return load_moments(folder / "m.npz").moments


kinds = st.lists(st.sampled_from(["none", "noisy"]), min_size=1, max_size=5)


@given(kinds)
def test_a_sum_has_the_parts_of_its_parts(found: list[str]) -> None:
    parts = [
        Moments(np.eye(2), 10 + k, ("a", "b"), (NoiseTerm(0.1),) if kind == "noisy" else ())
        for k, kind in enumerate(found)
    ]
    whole = pooled(parts)
    assert [origin.noise for origin in whole.origins] == [{"noisy": "stated"}.get(kind, kind) for kind in found]
    assert whole.protected == ("none" not in found)
    assert pooled([pooled(parts[:2]), *parts[2:]]).origins == whole.origins


def test_what_is_said_cannot_contradict_the_law_of_the_noise() -> None:
    claimed = (Origin("a", "secure"),)
    for silent in ((), (NoiseTerm(0.0),), (NoiseTerm(1.0, np.zeros((2, 2))),)):
        assert Moments(np.eye(2), 5, ("a", "b"), silent, None, claimed).origins == (Origin("a", "none"),)
    exact = Moments(np.eye(2), 5, ("a", "b"))
    assert exact.origins == (Origin("", "none"),)
    both = pooled([exact, exact])
    assert replace(both, noise=(NoiseTerm(0.1),)).origins == (Origin(), Origin())  # noise on the sum is on both
    mixed = pooled([exact, replace(exact, noise=(NoiseTerm(0.1),))])
    assert replace(mixed, noise=(*mixed.noise, NoiseTerm(0.1))).origins[0].noise == "none"  # not known: the worse


def test_malformed_origins_are_refused() -> None:
    for origins in ([OPEN], ("open",), OPEN):
        with pytest.raises(InvalidParameter, match="origins"):
            Moments(np.eye(2), 5, ("a", "b"), (), None, origins)  # type: ignore[arg-type]
    for bad in ({"party": 1}, {"noise": "loud"}):
        with pytest.raises(InvalidParameter):
            Origin(**bad)  # type: ignore[arg-type]


def as_version_1(path: Path) -> None:
    with np.load(path) as content:
        arrays = {name: content[name] for name in content.files}
    header = json.loads(arrays["header"].tobytes())
    del header["origins"]
    arrays["header"] = np.frombuffer(json.dumps(header | {"version": 1}).encode(), dtype=np.uint8)
    written = io.BytesIO()
    np.savez(written, **arrays)
    path.write_bytes(written.getvalue())


def test_of_a_file_of_version_1_the_reports_say_it(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    released = release_moments([table(0, "open"), table(1, "paid", budget=BOTH)])
    expected = (OPEN, Origin("paid", "secure"))
    for moments in (released.parts, released.moments):
        save_moments(path, moments, privacy_report=released.privacy_report)
        as_version_1(path)
        assert load_moments(path).moments.origins == expected
    save_moments(path, released.parts)
    as_version_1(path)
    assert [part.origins[0].noise for part in load_moments(path).parts] == ["none", "stated"]


def test_names_are_matched_before_those_without() -> None:
    a, b, unknown = Origin("a", "none"), Origin("b", "none"), Origin("", "none")
    assert unsaid([a, b, unknown], ["a", "c"]) == [b]
    assert unsaid([a, a], ["a"]) == [a] and unsaid([unknown, unknown], ["x"]) == [unknown]
    assert unsaid([b], ["a"]) == [b] and unsaid([], ["a"]) == []


def test_origins_in_words() -> None:
    many = [Origin(f"p{k}", "secure") for k in range(12)]
    assert named(many, most=2) == " (p0, p1, 10 more)" and named([Origin()]) == ""
    assert named([Origin("a\x1b[2J\nb"), Origin()]) == " (a\ufffd[2J b, 1 without a name)"
    text = origins_text([Origin(str(k), kind) for k, kind in enumerate(KINDS)])
    assert text.count(";") == 3 and text.startswith("1 party without noise (0)")
