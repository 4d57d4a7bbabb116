"""Messages as bytes: what goes in comes out, and nothing else gets in."""

from __future__ import annotations

import json
import math
import pickle
import struct
from dataclasses import dataclass, fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from privfcd.algorithms.fed_bnsl import messages as fed_bnsl
from privfcd.algorithms.fed_sparse import messages as fed_sparse
from privfcd.algorithms.fedacd import messages as fedacd
from privfcd.algorithms.peri import messages as peri
from privfcd.algorithms.protocol import Empty, SparseMatrix
from privfcd.algorithms.release import messages as release
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.errors import InvalidParameter
from privfcd.graphs.pdag import Pdag
from privfcd.runs.wire.codec import MAGIC, VERSION, Codec, MalformedMessage, module_messages
from privfcd.runs.wire.envelope import ENVELOPES, Answer, Refusal, Request

CODEC = Codec(
    {
        "empty": Empty,
        **module_messages("release", release),
        **module_messages("fed-bnsl", fed_bnsl),
        **module_messages("fedacd", fedacd),
        **module_messages("peri", peri),
    }
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
UNICODE = st.characters(exclude_categories=["Cs"])


def same(one: object, other: object) -> bool:
    """Whether two messages are of one class with the same bits in all fields."""
    if type(one) is not type(other):
        return False
    for part in fields(one):  # type: ignore[arg-type]
        a, b = getattr(one, part.name), getattr(other, part.name)
        if isinstance(a, np.ndarray):
            if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
                return False
        elif hasattr(a, "__dataclass_fields__"):
            if not same(a, b):
                return False
        elif a != b or type(a) is not type(b):
            return False
    return True


def rebuilt(document: object, body: bytes = b"", version: int = VERSION, magic: bytes = MAGIC) -> bytes:
    header = document if isinstance(document, bytes) else json.dumps(document).encode()
    return struct.pack(">4sHI", magic, version, len(header)) + header + body


def test_every_kind_of_message_comes_back_as_it_was() -> None:
    matrix = SparseMatrix.of(np.array([[0.0, 0.1], [-1e-300, 0.0]]))
    for message in (
        Empty(),
        release.Offer(ReleaseSettings("covariance", epsilon=0.1, row_norm=3.0, offset=(0.0, 1.5)), ("a", "ß")),
        release.Quote(7, math.inf, True, None),
        release.Quote(7, 0.3, False, (1.0, 2.0)),
        release.Plan((("mean", 0.25), ("second moments", 0.75))),
        release.AskMoments("round 1", 3.0, matrix, (0.1, 0.2)),
        release.AskMoments("round 1", 2.0, None, None),
        release.Matrix.of(np.eye(3) / 3, 0.125),
        fed_bnsl.Round(1, None),
        fed_bnsl.Round(2, matrix),
        fed_bnsl.Round(2, fed_bnsl.DenseMatrix(np.eye(2))),
        fedacd.Layer(1, np.array([[False, True], [True, False]])),
        fedacd.EdgeVotes(np.array([[0, -1], [-1, 0]], dtype=np.int8)),
        peri.AskRegrets(((0, 6), (1, 2**180)), "skeleton", 181, None),
        peri.AskColliders(Pdag.from_edges(3, [(0, 2)], [(0, 1)]), ((), ((0, 1), (2, 1)))),
    ):
        assert same(message, CODEC.decode(CODEC.encode(message))), message


@given(hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=4, min_side=0), elements=FLOATS), FLOATS)
@settings(max_examples=60, deadline=None)
def test_doubles_pass_exactly(values: np.ndarray, noise: float) -> None:
    message = release.Numbers(values, noise)
    back = CODEC.decode(CODEC.encode(message))
    assert back.values.tobytes() == values.tobytes() and back.values.shape == values.shape
    assert struct.pack("d", back.noise_sd) == struct.pack("d", noise)


@given(
    st.text(UNICODE, max_size=80), st.text(UNICODE, max_size=40), st.integers(-(2**70), 2**70), st.binary(max_size=200)
)
@settings(max_examples=60, deadline=None)
def test_envelopes_pass_exactly(study: str, run: str, sequence: int, payload: bytes) -> None:
    try:
        study.encode(), run.encode()
    except UnicodeEncodeError:
        return
    request = Request(study, run, sequence, payload)
    back = ENVELOPES.decode(ENVELOPES.encode(request))
    assert back == request and back.id == request.id
    assert ENVELOPES.decode(ENVELOPES.encode(Answer(run, payload))) == Answer(run, payload)


@given(st.binary(max_size=300))
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for given_data in (data, struct.pack(">4sHI", MAGIC, VERSION, min(len(data), 50)) + data):
        with pytest.raises(MalformedMessage):
            CODEC.decode(given_data)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_changed_byte_is_another_message_or_none(data: st.DataObject) -> None:
    message = release.AskMoments("round 1", 2.0, SparseMatrix.of(np.eye(2)), (0.5, 0.25))
    sent = bytearray(CODEC.encode(message))
    place = data.draw(st.integers(0, len(sent) - 1))
    sent[place] ^= data.draw(st.integers(1, 255))
    try:
        back = CODEC.decode(bytes(sent))
    except MalformedMessage:
        return
    assert type(back).__module__ == release.__name__


def test_what_is_no_message_is_refused_by_name() -> None:
    good = {"message": "release.Numbers", "fields": {"values": {"array": 0}, "noise_sd": 1.0}, "arrays": [["f8", [1]]]}
    body = struct.pack("<d", 1.5)
    assert CODEC.decode(rebuilt(good, body)).values.tolist() == [1.5]
    fields_of = good["fields"]
    assert isinstance(fields_of, dict)
    for word, data in (
        ("at least", b"PFCD"),
        ("start with PFCD", pickle.dumps(good)),
        ("schema version", rebuilt(good, body, version=VERSION + 1)),
        ("header must have at most", struct.pack(">4sHI", MAGIC, VERSION, 2**31) + b"{}"),
        ("not JSON", rebuilt(b"[" * 100_000)),
        ("not JSON", rebuilt(b'{"message": NaN}')),
        ("not JSON", rebuilt(b'{"message": "empty", "message": "empty"}')),
        ("exactly the message", rebuilt({**good, "more": 1}, body)),
        ("does not know", rebuilt({**good, "message": "os.system"}, body)),
        ("exactly the fields", rebuilt({**good, "fields": {**fields_of, "more": 1}}, body)),
        ("exactly the fields", rebuilt({**good, "fields": {"noise_sd": 1.0}}, body)),
        ("must be an array", rebuilt({**good, "fields": {**fields_of, "values": [1.0]}}, body)),
        ("must be an array", rebuilt({**good, "fields": {**fields_of, "values": {"array": 1}}}, body)),
        ("must be float", rebuilt({**good, "fields": {**fields_of, "noise_sd": True}}, body)),
        ("must be float", rebuilt({**good, "fields": {**fields_of, "noise_sd": "1"}}, body)),
        ("shorter", rebuilt(good, body[:-1])),
        ("longer", rebuilt(good, body + b"x")),
        ("finite", rebuilt(good, struct.pack("<d", math.nan))),
        ("finite", rebuilt(good, struct.pack("<d", math.inf))),
        ("shape", rebuilt({**good, "arrays": [["f8", [-1]]]}, body)),
        ("known type", rebuilt({**good, "arrays": [["O", [1]]]}, body)),
        ("each of its", rebuilt({**good, "arrays": [["f8", [1]], ["f8", [0]]]}, body)),
    ):
        with pytest.raises(MalformedMessage, match=word):
            CODEC.decode(data)


def test_values_that_a_class_refuses_are_refused() -> None:
    sent = CODEC.encode(release.Offer(ReleaseSettings("covariance"), ("a",)))
    with pytest.raises(MalformedMessage, match="does not accept"):
        CODEC.decode(sent.replace(b"covariance", b"kovariance"))


def test_kinds_of_arrays_are_told_apart() -> None:
    sent = CODEC.encode(fedacd.Layer(1, np.zeros((2, 2), dtype=bool)))
    with pytest.raises(MalformedMessage, match="0 and 1"):
        CODEC.decode(sent[:-1] + b"\2")
    with pytest.raises(MalformedMessage, match="kind"):
        CODEC.decode(sent.replace(b'"b1"', b'"i1"'))


def test_sizes_have_limits() -> None:
    small = Codec({"release.Numbers": release.Numbers}, most_bytes=1000)
    with pytest.raises(InvalidParameter, match="at most 1000"):
        small.encode(release.Numbers(np.zeros(1000), 0.0))
    with pytest.raises(MalformedMessage, match="at most 1000"):
        small.decode(CODEC.encode(release.Numbers(np.zeros(1000), 0.0)))


def test_what_cannot_be_sent_is_refused_before_it_is() -> None:
    with pytest.raises(InvalidParameter, match="finite"):
        CODEC.encode(release.Numbers(np.array([np.nan]), 0.0))
    with pytest.raises(InvalidParameter, match="NaN"):
        CODEC.encode(release.Quote(1, math.nan, True, None))
    with pytest.raises(InvalidParameter, match="message must be one of"):
        CODEC.encode(fed_sparse.Charge())

    @dataclass(frozen=True)
    class Odd:
        values: tuple[object, ...]

    with pytest.raises(InvalidParameter, match="numbers, texts"):
        Codec({"odd": Odd}).encode(Odd((object(),)))
    with pytest.raises(InvalidParameter, match="one name each"):
        Codec({"a": Odd, "b": Odd})


def test_a_refusal_tells_a_kind_and_no_words() -> None:
    sent = ENVELOPES.encode(Refusal("abc", "budget"))
    assert ENVELOPES.decode(sent) == Refusal("abc", "budget")
    with pytest.raises(MalformedMessage, match="one of"):
        ENVELOPES.decode(sent.replace(b'"budget"', b'"secret"'))
