"""A party behind a standard SuperNode: its ClientApp, started anew for every message, hands bytes to the party's process.

The party listens on a Unix socket that its own user alone can open. Where it is, the ClientApp is told by the environment of
the SuperNode (`PRIVFCD_RELAY`), not by any message.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.runs.flower import BODY, RECORD, be_quiet
from privfcd.runs.wire.codec import MOST_BYTES

PLACE = "PRIVFCD_RELAY"
_LENGTH = struct.Struct(">Q")
_LOOK = 0.5


def listen(
    handle: Callable[[bytes], bytes],
    place: str | os.PathLike[str],
    *,
    until: Callable[[], bool] = lambda: False,
    log: Callable[[str], None] = lambda line: None,
) -> None:
    """Answer questions that arrive on a Unix socket, one after the other, until `until()` says so.

    Parameters
    ----------
    handle : callable
        Answers a question's bytes; raises nothing.
    place : path
        Of the socket, in a folder that only its owner can enter; made here.
    until, log : callable
        As of `node.serve`.

    Raises
    ------
    InvalidParameter
        The folder is open to others, or the socket cannot be made.
    """
    path = Path(place)
    try:
        if stat.S_IMODE(path.parent.stat().st_mode) & 0o077:
            raise InvalidParameter(f"relay must be in a folder of mode 700, for others could ask too: {path.parent}")
        if path.exists() and not path.is_socket():
            raise InvalidParameter(f"relay must be the path of a socket to be made, and {path.name!r} is a file: kept")
        server = socket.socket(socket.AF_UNIX)
        path.unlink(missing_ok=True)
        server.bind(os.fspath(path))
    except (OSError, AttributeError) as error:
        raise InvalidParameter(f"relay must be the path of a Unix socket that can be made: {error}") from error
    with server:
        server.listen()
        server.settimeout(_LOOK)
        log("listening for the SuperNode's app")
        while not until():
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            with connection:
                connection.settimeout(60.0)
                try:
                    body = _received(connection)
                    _send(connection, handle(body))
                except (OSError, PartyFailed) as error:
                    log(f"the SuperNode's app went away: {type(error).__name__}")
    path.unlink(missing_ok=True)


def ask(place: str | os.PathLike[str], body: bytes) -> bytes:
    """Return the answer of the party that listens at `place`."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.fspath(place))
        _send(connection, body)
        return _received(connection)


def client_app() -> Any:
    """Return the ClientApp: it hands each question to the party's process, and its answer back."""
    be_quiet()
    from flwr.app import ConfigRecord, Context, Message, RecordDict
    from flwr.clientapp import ClientApp

    def answer(message: Message, context: Context) -> Message:
        place = os.environ.get(PLACE)
        if place is None:
            raise PartyFailed(f"the SuperNode was started without {PLACE}, the socket of `privfcd party serve --relay`")
        try:
            record = message.content[RECORD] if message.has_content() and RECORD in message.content else {}
            question = record.get(BODY)
            body = ask(place, question if isinstance(question, bytes) else b"")
        except OSError:  # what it says has a path in it
            raise PartyFailed("no party listens behind this SuperNode") from None
        return Message(RecordDict({RECORD: ConfigRecord({BODY: body})}), reply_to=message)

    app = ClientApp()
    app.query()(answer)
    return app


def _send(connection: socket.socket, body: bytes) -> None:
    connection.sendall(_LENGTH.pack(len(body)) + body)


def _received(connection: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    if length > MOST_BYTES:
        raise PartyFailed(f"a message must have at most {MOST_BYTES} bytes, got {length}")
    return _exactly(connection, length)


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(min(size - len(parts), 2**20))
        if not part:
            raise PartyFailed("a message was cut off")
        parts += part
    return bytes(parts)
