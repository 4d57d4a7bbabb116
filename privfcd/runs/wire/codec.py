"""Messages as bytes and back: typed, versioned, bounded. Nothing is unpickled, and nothing that was sent is executed.

A message is a frozen dataclass that a `Codec` was given by name. Its bytes are

    "PFCD" | version (2 bytes) | length of the header (4 bytes) | header | arrays, one after the other

all big-endian but for the arrays, which are raw little-endian numbers. The header is JSON: the message's name, its fields,
and for each array type and shape. What a field may hold is what its type hint says: numbers, texts, bytes, booleans,
None, tuples, arrays of numbers, and dataclasses of these. Whatever differs from that is a `MalformedMessage`, in words that
quote no contents. Doubles pass exactly.
"""

from __future__ import annotations

import json
import math
import struct
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.errors import InvalidParameter, PartyFailed

MAGIC = b"PFCD"
VERSION = 1
MOST_BYTES = 64 * 2**20
MOST_HEADER = 8 * 2**20
MOST_ITEMS = 2**20
"""What a header may list: each item takes about 100 bytes of memory while it is read, however short it is."""
_PREFIX = struct.Struct(">4sHI")
_TYPES: dict[str, np.dtype[Any]] = {
    "f8": np.dtype("<f8"),
    "i8": np.dtype("<i8"),
    "i1": np.dtype("<i1"),
    "b1": np.dtype("?"),
    "u1": np.dtype("u1"),
}
_INFINITIES = {"inf": math.inf, "-inf": -math.inf}


class MalformedMessage(PartyFailed):
    """Bytes that are no message of this version: truncated, oversized, of unknown name, fields, types or values."""


class Codec:
    """Writes and reads the messages that it knows.

    Parameters
    ----------
    messages : mapping of str to type
        Frozen dataclasses by the names that they have on the wire.
    implementations : mapping of type to sequence of type
        For a protocol that a type hint names: the dataclasses that it may be.
    most_bytes, most_header : int
        Longer messages, and messages with longer headers, are refused before they are looked at.
    """

    def __init__(
        self,
        messages: Mapping[str, type],
        implementations: Mapping[type, Iterable[type]] | None = None,
        most_bytes: int = MOST_BYTES,
        most_header: int = MOST_HEADER,
    ) -> None:
        self._types = dict(messages)
        self._names = {kind: name for name, kind in messages.items()}
        if len(self._names) < len(self._types):
            raise InvalidParameter("messages must have one name each, got a class under two names")
        self._implementations = {
            key: {kind.__name__: kind for kind in kinds} for key, kinds in (implementations or {}).items()
        }
        self._most, self._most_header = most_bytes, most_header

    def name_of(self, message: object) -> str:
        """Return the name of a message on the wire."""
        if type(message) not in self._names:
            raise InvalidParameter(f"message must be one of {sorted(self._types)}, got a {type(message).__name__}")
        return self._names[type(message)]

    def encode(self, message: object) -> bytes:
        """Return the bytes of a message.

        Raises
        ------
        InvalidParameter
            It is of no known class, or holds what its type hints do not allow.
        """
        arrays: list[NDArray[Any]] = []
        document: dict[str, Any] = {"message": self.name_of(message), "fields": self._write_fields(message, arrays)}
        document["arrays"] = [[_array_code(array), list(array.shape)] for array in arrays]
        header = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
        if sum(map(header.count, (b",", b"[", b"{"))) > MOST_ITEMS:
            raise InvalidParameter(f"a message's header must list at most {MOST_ITEMS} items: ask for less at a time")
        body = b"".join(array.astype(_TYPES[_array_code(array)], copy=False).tobytes() for array in arrays)
        if _PREFIX.size + len(header) + len(body) > self._most or len(header) > self._most_header:
            raise InvalidParameter(
                f"a message must have at most {self._most} bytes, {self._most_header} of them in its header, got "
                f"{len(header) + len(body)} and {len(header)}: a study of fewer columns has smaller ones"
            )
        return _PREFIX.pack(MAGIC, VERSION, len(header)) + header + body

    def decode(self, data: bytes) -> Any:
        """Return the message that the bytes hold, newly made by its class.

        Raises
        ------
        MalformedMessage
            What is wrong with them.
        """
        document, body = self._header(data)
        name = document["message"]
        kind = self._types.get(name) if isinstance(name, str) else None
        if kind is None:
            raise MalformedMessage("a message has a name that this study does not know")
        arrays = _read_arrays(document["arrays"], body)
        used: set[int] = set()
        try:
            message = self._read_fields(kind, document["fields"], name, _Arrays(arrays, used))
        except MalformedMessage:
            raise
        except RecursionError:
            raise MalformedMessage(f"message {name!r} is nested too deeply") from None
        if len(used) != len(arrays):
            raise MalformedMessage(f"message {name!r} must use each of its {len(arrays)} arrays")
        return message

    def _header(self, data: bytes) -> tuple[dict[str, Any], memoryview]:
        if len(data) > self._most:
            raise MalformedMessage(f"a message must have at most {self._most} bytes, got {len(data)}")
        if len(data) < _PREFIX.size:
            raise MalformedMessage(f"a message must have at least {_PREFIX.size} bytes, got {len(data)}")
        magic, version, length = _PREFIX.unpack_from(data)
        if magic != MAGIC:
            raise MalformedMessage("a message must start with PFCD: these bytes are something else")
        if version != VERSION:
            raise MalformedMessage(f"a message must have schema version {VERSION}, got {version}: update one side")
        body = memoryview(data)[_PREFIX.size :]
        if length > min(len(body), self._most_header):
            most = min(len(body), self._most_header)
            raise MalformedMessage(f"a message's header must have at most {most} bytes, got {length}")
        header = bytes(body[:length])
        if sum(map(header.count, (b",", b"[", b"{"))) > MOST_ITEMS:
            raise MalformedMessage(f"a message's header must list at most {MOST_ITEMS} items")
        try:
            document = json.loads(header, parse_constant=_refuse_constant, object_pairs_hook=_unique)
        except (ValueError, RecursionError):
            raise MalformedMessage("a message's header is not JSON as it should be") from None
        if not isinstance(document, dict) or set(document) != {"message", "fields", "arrays"}:
            raise MalformedMessage("a message's header must have exactly the message, its fields and its arrays")
        return document, body[length:]

    def _write_fields(self, value: Any, arrays: list[NDArray[Any]]) -> dict[str, Any]:
        hints = _hints(type(value))
        return {name: self._write(hint, getattr(value, name), name, arrays) for name, hint in hints.items()}

    def _write(self, hint: Any, value: Any, name: str, arrays: list[NDArray[Any]]) -> Any:
        if isinstance(value, bytes):
            value = np.frombuffer(value, dtype=np.uint8)
        if isinstance(value, np.ndarray):
            _check_array(value, name, InvalidParameter)
            arrays.append(value)
            return {"array": len(arrays) - 1}
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, str) and not _is_text(value):
            raise InvalidParameter(f"{name} must be text that can be written in UTF-8")
        if value is None or isinstance(value, bool | str | int):
            return value
        if isinstance(value, float):
            if math.isnan(value):
                raise InvalidParameter(f"{name} must be a number, got NaN")
            return value if math.isfinite(value) else {"number": str(value)}
        if isinstance(value, tuple | list):
            return [self._write(None, item, name, arrays) for item in value]
        if is_dataclass(value) and not isinstance(value, type):
            return {"is": type(value).__name__, "fields": self._write_fields(value, arrays)}
        raise InvalidParameter(f"{name} must be numbers, texts, arrays or dataclasses of these, got {type(value)!r}")

    def _read_fields(self, kind: type, given: Any, name: str, arrays: _Arrays) -> Any:
        hints = _hints(kind)
        if not isinstance(given, dict) or set(given) != set(hints):
            raise MalformedMessage(f"{name!r} must have exactly the fields {sorted(hints)}")
        values = {field: self._read(hint, given[field], f"{name}.{field}", arrays) for field, hint in hints.items()}
        try:
            return kind(**values)
        except (InvalidParameter, ArithmeticError, TypeError, ValueError):
            raise MalformedMessage(f"{name!r} has values that its class does not accept") from None

    def _read(self, hint: Any, value: Any, name: str, arrays: _Arrays) -> Any:
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Annotated:
            return self._read(inner[0], value, name, arrays)
        if origin is typing.Literal:
            if any(value == choice and type(value) is type(choice) for choice in inner):
                return value
            raise MalformedMessage(f"{name} must be one of {list(inner)}")
        if origin in (typing.Union, types.UnionType):
            return self._read_union(inner, value, name, arrays)
        if origin is tuple:
            return self._read_tuple(inner, value, name, arrays)
        if origin is np.ndarray:
            return arrays.take(_kinds(hint), value, name)
        if hint is bytes:
            return arrays.take("u", value, name).tobytes()
        if hint in self._implementations:
            return self._read_dataclass(self._implementations[hint], value, name, arrays)
        if isinstance(hint, type) and is_dataclass(hint):
            return self._read_dataclass({hint.__name__: hint}, value, name, arrays)
        return _read_plain(hint, value, name)

    def _read_union(self, choices: tuple[Any, ...], value: Any, name: str, arrays: _Arrays) -> Any:
        if value is None:
            if type(None) in choices:
                return None
            raise MalformedMessage(f"{name} must not be empty")
        for choice in choices:
            if choice is type(None):
                continue
            try:
                return self._read(choice, value, name, arrays)
            except MalformedMessage as error:
                last = error
        raise last

    def _read_tuple(self, inner: tuple[Any, ...], value: Any, name: str, arrays: _Arrays) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise MalformedMessage(f"{name} must be a list")
        if len(inner) == 2 and inner[1] is Ellipsis:
            return tuple(self._read(inner[0], item, name, arrays) for item in value)
        if len(value) != len(inner):
            raise MalformedMessage(f"{name} must be a list of {len(inner)}, got {len(value)}")
        return tuple(self._read(hint, item, name, arrays) for hint, item in zip(inner, value, strict=True))

    def _read_dataclass(self, kinds: Mapping[str, type], value: Any, name: str, arrays: _Arrays) -> Any:
        if not isinstance(value, dict) or set(value) != {"is", "fields"} or value["is"] not in list(kinds):
            raise MalformedMessage(f"{name} must be one of {sorted(kinds)}")
        return self._read_fields(kinds[value["is"]], value["fields"], name, arrays)


@dataclass
class _Arrays:
    """The arrays of one message, each to be used once."""

    arrays: list[NDArray[Any]]
    used: set[int]

    def take(self, kinds: str, value: Any, name: str) -> NDArray[Any]:
        index = value.get("array") if isinstance(value, dict) and set(value) == {"array"} else None
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(self.arrays):
            raise MalformedMessage(f"{name} must be an array")
        array = self.arrays[index]
        if array.dtype.kind not in kinds:
            raise MalformedMessage(f"{name} must be an array of kind {kinds!r}, got {array.dtype}")
        if index in self.used:
            raise MalformedMessage(f"{name} must have an array of its own")
        self.used.add(index)
        return array


def module_messages(prefix: str, module: types.ModuleType, *more: type) -> dict[str, type]:
    """Return the dataclasses that a module defines, by the names "prefix.Class"; and others of its kind."""
    own = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and is_dataclass(kind) and kind.__module__ == module.__name__
    ]
    return {f"{prefix}.{kind.__name__}": kind for kind in (*own, *more)}


_HINTS: dict[type, dict[str, Any]] = {}


def _hints(kind: type) -> dict[str, Any]:
    """Return the type hints of a dataclass's fields that are given at its making."""
    if kind not in _HINTS:
        assert is_dataclass(kind)
        hints = typing.get_type_hints(kind)
        _HINTS[kind] = {field.name: hints[field.name] for field in fields(kind) if field.init}
    return _HINTS[kind]


def _kinds(hint: Any) -> str:
    """Return the kinds of numbers that an array's hint allows."""
    text = str(hint)
    for word, kinds in (("float", "f"), ("bool", "b"), ("int", "i")):
        if word in text:
            return kinds
    return "fib"


def _array_code(array: NDArray[Any]) -> str:
    if array.dtype.kind == "b":
        return "b1"
    if array.dtype.kind == "f":
        return "f8"
    if array.dtype == np.uint8:
        return "u1"
    return "i1" if array.dtype == np.int8 else "i8"


def _check_array(array: NDArray[Any], name: str, error: type[Exception]) -> None:
    if (array.dtype.kind not in "fib" and array.dtype != np.uint8) or array.dtype.itemsize > 8:
        raise error(f"{name} must be an array of doubles, integers or booleans, got {array.dtype}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise error(f"{name} must be an array of finite numbers")


def _read_arrays(listed: Any, body: memoryview) -> list[NDArray[Any]]:
    if not isinstance(listed, list):
        raise MalformedMessage("a message's arrays must be listed")
    arrays, place = [], 0
    for entry in listed:
        if not isinstance(entry, list) or len(entry) != 2 or entry[0] not in list(_TYPES) or not _is_shape(entry[1]):
            raise MalformedMessage("an array must have a known type and a shape")
        kind, size = _TYPES[entry[0]], math.prod(entry[1])
        if size * kind.itemsize > len(body) - place:
            raise MalformedMessage("a message is shorter than its arrays")
        raw = body[place : place + size * kind.itemsize]
        if kind.kind == "b" and bytes(raw).strip(b"\0\1"):
            raise MalformedMessage("an array of booleans must hold 0 and 1 only")
        try:
            array = np.frombuffer(raw, dtype=kind).reshape(entry[1]).astype(kind.newbyteorder("="))
        except ValueError:  # no numbers, in dimensions whose product is beyond an array's
            raise MalformedMessage("an array must have a shape that arrays can have") from None
        _check_array(array, "an array", MalformedMessage)
        arrays.append(array)
        place += size * kind.itemsize
    if place != len(body):
        raise MalformedMessage("a message is longer than its arrays")
    return arrays


def _is_shape(value: Any) -> bool:
    whole = isinstance(value, list) and len(value) <= 4
    return whole and all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**31 for n in value)


def _read_plain(hint: Any, value: Any, name: str) -> Any:
    """Return a number, a text or a truth value of exactly the hinted type."""
    if hint is type(None) and value is None:
        return None
    if hint is bool and isinstance(value, bool):
        return value
    if hint is str and isinstance(value, str) and _is_text(value):
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is float:
        if isinstance(value, dict) and set(value) == {"number"} and value["number"] in list(_INFINITIES):
            return _INFINITIES[value["number"]]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    word = getattr(hint, "__name__", str(hint))
    raise MalformedMessage(f"{name} must be {word}, got {type(value).__name__}")


def _is_text(value: str) -> bool:
    """Return whether a text has a form in bytes: JSON can name halves of surrogate pairs, which have none."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _refuse_constant(text: str) -> Any:
    raise ValueError(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("repeated key")
    return document
