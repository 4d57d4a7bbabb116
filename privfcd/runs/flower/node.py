"""A party as a SuperNode: it pulls questions from a SuperLink, has them answered here, and pushes the answers.

Registration, signatures, heartbeats and retries are Flower's own. App code is neither pulled nor run, and answers are made
in this process, whose memory holds the party's half between questions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from privfcd import checks
from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.runs.flower import BODY, RECORD, be_quiet
from privfcd.runs.flower.connection import SuperLink

PATIENCE = 120.0
"""Seconds after which a SuperLink takes a node that was killed for gone, and lets the same key in again."""


def serve(
    handle: Callable[[bytes], bytes],
    superlink: SuperLink,
    *,
    private_key: str | os.PathLike[str] | None = None,
    poll: float = 0.25,
    until: Callable[[], bool] = lambda: False,
    log: Callable[[str], None] = lambda line: None,
) -> None:
    """Answer questions from a SuperLink until `until()` says so.

    Parameters
    ----------
    handle : callable
        Answers a question's bytes; raises nothing.
    superlink : SuperLink
    private_key : path, optional
        The node's key (elliptic curve, OpenSSH format), whose public half the SuperLink's operator has registered.
        Without TLS, on this machine, none is needed.
    poll : float
        Seconds between two looks for questions.
    until : callable
        Looked at between questions.
    log : callable
        Told in words what happens; for the owner only.

    Raises
    ------
    InvalidParameter
        The key is missing or cannot be read, or Flower is not installed.
    PartyFailed
        The SuperLink cannot be reached or does not let this node in.
    """
    be_quiet()
    checks.positive("poll", poll)
    keys = _keys(private_key)
    if keys is None and not superlink.insecure:
        raise InvalidParameter("private_key must be given with TLS: the SuperLink knows a party by its key")
    began = time.monotonic()
    while not until():
        try:
            _connected(handle, superlink, keys, poll, until, log)
        except _NotLetIn as error:
            if time.monotonic() - began > PATIENCE:
                raise PartyFailed(f"the SuperLink does not let this node in: {error}") from None
            log(f"not let in, trying again: {error}")
            time.sleep(min(5.0, 20 * poll))
        else:
            log("connection closed")
            began = time.monotonic()


def _connected(
    handle: Callable[[bytes], bytes],
    superlink: SuperLink,
    keys: Any,
    poll: float,
    until: Callable[[], bool],
    log: Callable[[str], None],
) -> None:
    from flwr.supernode import fleet_http_connection

    # Flower ends the process where it is not let in, by a timer even if that is caught
    fleet_http_connection.flwr_exit = _not_let_in
    connection = fleet_http_connection.http_request_response(
        superlink.address, superlink.insecure, superlink.certificates, keys
    )
    with connection as (_, receive, send, _, _, pull_object, push_object, confirm):
        log("connected")
        while not until():
            received = receive()
            if received is None:
                time.sleep(poll)
                continue
            began = time.perf_counter()
            try:
                try:
                    question = _pulled(received, pull_object, confirm)
                    body = _body(question)
                except (_NotLetIn, _not_running()):
                    raise
                except Exception as error:  # what the SuperLink sends must not end a party that was charged
                    log(f"a question that cannot be read is dropped: {type(error).__name__}")
                    time.sleep(poll)
                    continue
                answer = handle(body)
                _push(question, answer, time.perf_counter() - began, send, push_object)
            except _not_running():
                log("the coordinator's run has ended: its question is dropped")


def _pulled(received: Any, pull_object: Callable[[int, str], bytes], confirm: Callable[[int, str], None]) -> Any:
    """Return a message with its contents."""
    from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
    from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents, pull_objects

    header, tree = received
    run, number = header.metadata.run_id, header.metadata.message_id
    contents = pull_objects([part.object_id for part in iterate_object_tree(tree)], lambda each: pull_object(run, each))
    confirm(run, number)
    message: Any = inflate_object_from_contents(number, contents)
    message.metadata.__dict__["_message_id"] = number
    return message


def _body(message: Any) -> bytes:
    """Return the bytes in a message; none where it is no question of ours."""
    from flwr.app import ConfigRecord

    if not message.has_content() or RECORD not in message.content:
        return b""
    record = message.content[RECORD]
    body = record.get(BODY) if isinstance(record, ConfigRecord) else None
    return body if isinstance(body, bytes) else b""


def _push(question: Any, body: bytes, seconds: float, send: Any, push_object: Any) -> None:
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.supercore.inflatable.inflatable_object import (
        get_all_nested_objects,
        get_object_tree,
        no_object_id_recompute,
    )
    from flwr.supercore.inflatable.inflatable_utils import push_object_contents_from_iterable

    reply = Message(RecordDict({RECORD: ConfigRecord({BODY: body})}), reply_to=question)
    with no_object_id_recompute():
        reply.metadata.__dict__["_message_id"] = reply.object_id
        wanted, session = send(reply, get_object_tree(reply), seconds)
        parts = get_all_nested_objects(reply)
        run = reply.metadata.run_id
        push_object_contents_from_iterable(
            ((number, part.deflate()) for number, part in parts.items() if number in wanted),
            lambda number, content: push_object(run, session, number, content),
        )


class _NotLetIn(Exception):
    """The SuperLink refused this node, or could not be reached."""


def _not_let_in(code: int, message: str | None = None, *_: Any, **__: Any) -> None:
    words = [line for line in (message or "").splitlines() if line]
    raise _NotLetIn(f"{' '.join(words[1:] or words)} (Flower's exit code {code})")


def _not_running() -> type[Exception]:
    from flwr.supercore.run import RunNotRunningException

    kind: type[Exception] = RunNotRunningException
    return kind


def _keys(path: str | os.PathLike[str] | None) -> Any:
    """Return the node's private and public key."""
    if path is None:
        return None
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    try:
        key = load_ssh_private_key(Path(path).read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise InvalidParameter(f"private_key must be a readable OpenSSH key without a passphrase: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InvalidParameter("private_key must be an elliptic-curve key: ssh-keygen -t ecdsa -b 384")
    return key, key.public_key()
