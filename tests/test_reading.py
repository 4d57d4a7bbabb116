"""Readers of files of others: whatever is damaged or hostile ends in an error of privfcd that names the file."""

from __future__ import annotations

import gzip
import io
import json
import resource
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfcd as pf
from privfcd.datasets.networks import read_bif
from privfcd.errors import InvalidParameter, InvalidTable, PrivfcdError
from privfcd.graphs import read_graph
from privfcd.moments import Moments
from privfcd.moments.files import load_moments, save_moments
from privfcd.reading import content_of, toml_of, unzipped
from privfcd.runs.wire.checkpoint import Checkpoint
from privfcd.runs.wire.codec import MOST_HEADER, Codec, MalformedMessage
from privfcd.runs.wire.envelope import ENVELOPES, Request
from privfcd.runs.wire.study_file import read_study


def npz(**members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as stored:
        for name, member in members.items():
            stored.writestr(f"{name}.npy", member)
    return content.getvalue()


def npy(shape: str, body: bytes = b"", dtype: str = "<f8") -> bytes:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body


STUDY = 'schema = 1\nname = "s"\nmethod = "pc"\nparties = ["a", "b"]\ncolumns = ["x", "y"]\n'
HOSTILE: dict[str, tuple[str, bytes, Callable[[Path], Any]]] = {
    "brackets in a study": ("s.toml", STUDY.encode() + b"[parameters]\nx = " + b"[" * 5000, read_study),
    "names of many parts": ("s.toml", b"a." * 8000 + b"a = 1", read_study),
    "digits in a study": ("s.toml", STUDY.encode() + b"min_parties = " + b"9" * 5000, read_study),
    "a study of zeros": ("s.toml", b"\0" * 1000, read_study),
    "a long study": ("s.toml", b"#" * (2**20 + 1), read_study),
    "a study in Latin-1": ("s.toml", STUDY.replace('"s"', '"ö"').encode("latin-1"), read_study),
    "2^50 numbers": ("m.npz", npz(header=npy("(1125899906842624,)")), load_moments),
    "2^30 numbers": ("m.npz", npz(header=npy("(1073741824,)")), load_moments),
    "negative shape": ("m.npz", npz(header=npy("(-8,)", b"\0" * 64)), load_moments),
    "objects": ("m.npz", npz(header=npy("(1,)", b"\0" * 8, "|O")), load_moments),
    "a packed gigabyte": ("m.npz", npz(header=npy("(125000000,)", b"\0" * 10**9)), load_moments),
    "nested header": ("m.npz", npz(header=npy("(9000,)", b"[" * 9000, "|u1")), load_moments),
    "no numbers": ("m.npz", npz(header=npy("(4,)", b"null", "|u1")), load_moments),
    "brackets in a graph": ("g.json", b"[" * 100_000, read_graph),
    "a graph of null": ("g.json", b'{"directed": true, "nodes": null, "edges": [[]]}', read_graph),
    "a laugh": (
        "g.graphml",
        b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "' + b"x" * 10**5 + b'">'
        + b"".join(b'<!ENTITY %c "%s">' % (98 + k, b"&%c;" % (97 + k) * 10) for k in range(8))
        + b"]><graphml>&i;</graphml>",
        read_graph,
    ),
    "zero characters in CSV": ("g.csv", b"from,to\n\0,b\n", read_graph),
    "cells without end": ("t.csv", b'x,y\n"' + b"1" * 200_000, lambda path: pf.PrivateTable(path)),
    "a packed table": ("t.csv.gz", gzip.compress(b"x,y\n" + b"1,2\n" * 10**8, 9), lambda path: pf.PrivateTable(path)),
    "half a packed table": ("t.csv.gz", gzip.compress(b"x,y\n" * 999)[:-9], lambda path: pf.PrivateTable(path)),
    "a header of many columns": ("t.csv", b"x" + b",y" * 10**5, lambda path: pf.PrivateTable(path, columns=["z"])),
    "a Parquet file of zeros": ("t.parquet", b"PAR1" + b"\0" * 500 + b"PAR1", lambda path: pf.PrivateTable(path)),
    "a network of many states": (
        "n.bif",
        b"".join(b"variable v%d { type discrete [ 9 ] { a, b, c, d, e, f, g, h, i }; }\n" % k for k in range(30))
        + b"probability ( v0 | " + b", ".join(b"v%d" % k for k in range(1, 30)) + b" ) { table 1; }",
        read_bif,
    ),
    "a checkpoint of noise": ("c.sqlite", b"SQLite format 3\0" + b"\x07" * 4000, lambda path: Checkpoint(path, "s")),
    "a checkpoint that is a ledger's": ("c.sqlite", b"junk" * 2000, lambda path: Checkpoint(path, "s")),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_end_in_one_error_that_names_them(case: str, tmp_path: Path) -> None:
    name, content, read = HOSTILE[case]
    path = tmp_path / name
    path.write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(PrivfcdError) as caught:
        read(path)
    del content
    assert name.split(".")[0] in str(caught.value) and len(str(caught.value)) < 3000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # KiB: far below a gigabyte


def test_files_that_are_no_files(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none", tmp_path / "zero\0"):
        with pytest.raises(InvalidParameter, match="cannot be read"):
            content_of(place, "study 's'", 10)
    with pytest.raises(InvalidTable, match="at most 10 bytes"):
        content_of("/dev/zero", "it", 10, InvalidTable)


def test_honest_files_are_read_as_before(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    matrix = np.cov(rng.normal(size=(50, 3)).T)
    save_moments(tmp_path / "m.npz", Moments(matrix, 50, ("a", "b", "c")))
    np.testing.assert_array_equal(load_moments(tmp_path / "m.npz").moments.matrix, matrix)
    parts = [gzip.compress(part) for part in (b"x,y\n", b"1,2\n3,4\n", b"5,6\n")]
    assert unzipped(b"".join(parts), "t") == b"x,y\n1,2\n3,4\n5,6\n"
    assert toml_of(b'a.b.c = "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18."', "it")["a"]["b"]
    numbers = ", ".join(["1.5"] * 50)
    assert toml_of(f"x = [{numbers}]\n".encode(), "it")["x"] == [1.5] * 50


@pytest.mark.parametrize("item", [b"[],", b'{"a":1},', b"1.5,", b"{},", b'"a",', b"1" * 60 + b","])
def test_a_header_is_bounded_before_it_is_parsed(item: bytes) -> None:
    codec = Codec({"request": Request})
    header = b'{"message":"request","fields":[' + item * (20 * 2**20 // len(item)) + b'1],"arrays":[]}'
    for length in (len(header), MOST_HEADER):
        cut = header[:length]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(MalformedMessage):
            codec.decode(struct.pack(">4sHI", b"PFCD", 1, len(cut)) + cut)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000
        with pytest.raises(MalformedMessage, match="at most 16384"):
            ENVELOPES.decode(struct.pack(">4sHI", b"PFCD", 1, len(cut)) + cut)


def test_a_checkpoint_that_cannot_be_written_for_a_while_loses_nothing(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "run.sqlite"
    kept = Checkpoint(path, "study")
    kept._store.execute("PRAGMA busy_timeout = 10")
    kept.begin(("a", "b"))
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    kept.ask(1, b"question")
    kept.keep(1, "a", b"answer")
    assert kept.asked(1) == b"question" and kept.answers(1) == {"a": b"answer"}
    holder.execute("ROLLBACK")
    kept.keep(1, "b", b"other")
    kept.close()
    again = Checkpoint(path, "study")
    assert again.asked(1) == b"question" and again.answers(1) == {"a": b"answer", "b": b"other"}


@pytest.mark.parametrize("seed", range(3))
def test_flipped_bytes_of_honest_files_never_end_in_anything_else(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    save_moments(tmp_path / "m.npz", Moments(np.eye(3), 50, ("a", "b", "c")))
    (tmp_path / "s.toml").write_text(STUDY)
    (tmp_path / "g.json").write_text(json.dumps({"directed": True, "nodes": [{"id": "a"}], "edges": []}))
    (tmp_path / "t.csv").write_text("x,y\n1,2\n3,4\n")
    kept = Checkpoint(tmp_path / "c.sqlite", "s")
    kept.begin(("a",))
    kept.close()
    readers: dict[str, Callable[[Path], Any]] = {
        "m.npz": load_moments, "s.toml": read_study, "g.json": read_graph, "t.csv": lambda path: pf.PrivateTable(path),
        "c.sqlite": lambda path: Checkpoint(path, "s"),
    }  # fmt: skip
    for name, read in readers.items():
        content = (tmp_path / name).read_bytes()
        for _ in range(60):
            changed = bytearray(content)
            for place in rng.integers(0, len(content), rng.integers(1, 5)):
                changed[place] = rng.integers(0, 256)
            if rng.random() < 0.3:
                changed = changed[: rng.integers(0, len(changed))]
            (tmp_path / f"x{name}").write_bytes(changed)
            try:
                read(tmp_path / f"x{name}")
            except PrivfcdError as error:
                assert str(error)
