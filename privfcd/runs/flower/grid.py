"""A coordinator as a ServerApp's process: it starts a run, asks the nodes of it, and ends it.

The SuperLink must run with `--isolation process` (it then starts no app code of its own) and, outside of one's own
machine, with a secret that says who may be a coordinator (`--superexec-auth-secret-file`) and with node keys
(`--enable-supernode-auth`): a coordinator believes the nodes that are registered under its parties' names, and no others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from privfcd import checks
from privfcd.errors import InvalidParameter, PartyFailed, PrivfcdError
from privfcd.markup import one_line
from privfcd.runs.flower import BODY, RECORD, be_quiet
from privfcd.runs.flower.app import bundle
from privfcd.runs.flower.connection import SuperLink
from privfcd.runs.wire.codec import MalformedMessage
from privfcd.runs.wire.envelope import ENVELOPES, HELLO, Refusal, greeting
from privfcd.runs.wire.study_file import Study


class SuperLinkFailed(PrivfcdError):
    """The SuperLink cannot be reached, or refuses a run."""


class FlowerTransport:
    """A `Transport` over one Flower run; a context manager.

    Parameters
    ----------
    superlink : SuperLink
    secret : path, optional
        File with the secret of those who may coordinate; needed with TLS.
    poll : float
        Seconds between two looks for answers.
    log : callable
        Told in words what happens.
    """

    def __init__(
        self,
        superlink: SuperLink,
        *,
        secret: str | os.PathLike[str] | None = None,
        poll: float = 0.25,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        be_quiet()
        if secret is None and not superlink.insecure:
            raise InvalidParameter(
                "secret must be given with TLS: without one, everybody who reaches the SuperLink may coordinate"
            )
        self._superlink = superlink
        self._secret = None if secret is None else Path(secret).read_bytes()
        self._poll = checks.positive("poll", poll)
        self._log = log
        self._nodes: dict[str, int] = {}
        self._greeting = b""
        self._strangers: set[int] = set()
        self._mentioned: set[int] = set()

    def __enter__(self) -> Self:
        import httpx

        try:
            self._open()
        except httpx.HTTPError as error:
            raise SuperLinkFailed(f"the SuperLink at {self._superlink.address} refused: {_told(error)}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from flwr.common.constant import SubStatus
        from flwr.proto.runtime_pb2 import PushTaskOutputRequest

        self._grid._retry_invoker.max_tries = 1
        status = SubStatus.COMPLETED if kind is None else SubStatus.FAILED
        try:
            self._grid._runtime_client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=""))
        except Exception as problem:  # the run is over; the SuperLink notices by itself when heartbeats stop
            self._log(f"the SuperLink was not told of the run's end: {type(problem).__name__}")
        self._heartbeat.stop()
        self._grid.close()

    def find(self, study: Study, names: Sequence[str], timeout: float) -> Mapping[str, str]:
        """Find which node is which party; return what is wrong with those that were not found.

        Raises
        ------
        PartyFailed
            A party has another study file, and in which keys it differs; nothing is charged.

        A party is the node that the SuperLink's operator registered under its name, and that answers with this name: its
        key says who it is. Nodes of other names and of none are not asked and not believed; two of one name are both
        refused. Without TLS, on this machine, nodes have no keys, and one without a name is believed.
        """
        self._greeting = greeting(study.digest, study.keys)
        return self._found(names, timeout)

    def _found(self, names: Sequence[str], timeout: float) -> Mapping[str, str]:
        deadline = time.monotonic() + timeout
        why = dict.fromkeys(names, "no node that is registered under that name has come forward")
        while True:
            found: dict[str, list[int]] = {}
            for number, name in self._greeted(why).items():
                found.setdefault(name, []).append(number)
            for name, nodes in found.items():
                if name in why and len(nodes) == 1:
                    self._nodes[name] = nodes[0]
                    del why[name]
                    self._log(f"{name} is there")
                elif name in why:
                    why[name] = "several nodes claim to be it"
            if why:
                self._tell_strangers()
            if not why or time.monotonic() > deadline:
                return why
            time.sleep(4 * self._poll)

    def exchange(self, requests: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes]:
        """See `Transport.exchange`.

        A question to a node that the SuperLink takes for gone is sent again when a node of that name is there.
        """
        deadline = time.monotonic() + timeout
        answers: dict[str, bytes] = {}
        while True:
            missing = [name for name in requests if name not in answers]
            left = deadline - time.monotonic()
            if not missing or left <= 0:
                return answers
            online = {node.node_id for node in self._grid.get_nodes()}
            for name in missing:
                if self._nodes.get(name) not in online:
                    self._nodes.pop(name, None)
            if any(name not in self._nodes for name in missing):
                self._found([name for name in missing if name not in self._nodes], min(left, 20 * self._poll))
            nodes = {self._nodes[name]: name for name in missing if name in self._nodes}
            left = max(deadline - time.monotonic(), 4 * self._poll)
            for node, answer in self._ask({node: requests[name] for node, name in nodes.items()}, left).items():
                answers[nodes[node]] = answer
            if len(answers) < len(requests):
                time.sleep(4 * self._poll)

    def _greeted(self, wanted: Collection[str]) -> dict[int, str]:
        """Ask nodes that may be one of the wanted parties who they are; return the names of those that are."""
        known = set(self._nodes.values())
        online = {node.node_id: node.name for node in self._grid.get_nodes() if node.node_id not in known}
        nameless = {number for number, name in online.items() if not name}
        self._strangers = set() if self._superlink.insecure else nameless
        asked = {number for number, name in online.items() if name in wanted} | (nameless - self._strangers)
        names = {}
        for number, answer in self._ask(dict.fromkeys(asked, self._greeting), 120 * self._poll).items():
            _refuse_other_file(online[number], answer)
            if answer.startswith(HELLO):
                name = answer[len(HELLO) :].decode(errors="replace")
                if online[number] in ("", name):
                    names[number] = name
        return names

    def _tell_strangers(self) -> None:
        """Say once how many nodes are passed over for they have no name."""
        if self._strangers - self._mentioned:
            self._log(
                f"nodes without a registered name, which are not believed: {len(self._strangers)}. The SuperLink must run "
                "with --enable-supernode-auth, and know each party's key by the party's name (flwr supernode register KEY "
                "--name PARTY)"
            )
            self._mentioned |= self._strangers

    def _ask(self, bodies: Mapping[int, bytes], timeout: float) -> dict[int, bytes]:
        from flwr.app import ConfigRecord, Message, RecordDict

        messages = [
            Message(RecordDict({RECORD: ConfigRecord({BODY: body})}), node, "query", ttl=timeout + 60)
            for node, body in bodies.items()
        ]
        nodes = list(bodies)
        numbers = list(self._grid.push_messages(messages)) if messages else []
        waiting = {number: node for number, node in zip(numbers, nodes, strict=True) if number}
        answers: dict[int, bytes] = {}
        deadline = time.monotonic() + timeout
        while waiting and time.monotonic() < deadline:
            for message in self._grid.pull_messages(list(waiting)):
                answered = waiting.pop(message.metadata.reply_to_message_id, None)
                if answered is None or message.has_error() or RECORD not in message.content:
                    continue
                record = message.content[RECORD]
                body = record.get(BODY) if isinstance(record, ConfigRecord) else None
                if isinstance(body, bytes):
                    answers[answered] = body
            if waiting:
                time.sleep(self._poll)
        return answers

    def _open(self) -> None:
        from flwr.common.serde import fab_to_proto, run_from_proto
        from flwr.proto.control_pb2 import StartRunRequest
        from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest
        from flwr.supercore.constant import TaskType
        from flwr.supercore.control import ControlHttpClient
        from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
        from flwr.supercore.interceptors import (
            RuntimeVersionHttpInterceptor,
            SuperExecAuthHttpInterceptor,
        )
        from flwr.supercore.runtime import RuntimeHttpClient
        from flwr.supercore.task_identity import TaskIdentity
        from flwr.superlink.grid import HttpGrid

        link, version = self._superlink, RuntimeVersionHttpInterceptor(component_name="flwr-serverapp")
        where = (link.address, link.insecure, link.certificates)
        with ControlHttpClient.from_server_address(*where, interceptors=[version]) as control:
            started = control.StartRun(StartRunRequest(fab=fab_to_proto(bundle())))
        if not started.run_id:
            raise SuperLinkFailed("the SuperLink did not start a run")
        guards: list[Any] = [version]
        if self._secret is not None:
            guards.append(
                SuperExecAuthHttpInterceptor(
                    master_secret=self._secret, protected_methods={"/flwr.proto.Runtime/AcquireTask"}
                )
            )
        with RuntimeHttpClient.from_server_address(*where, interceptors=guards) as runtime:
            task = runtime.AcquireTask(AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP]))
        if not task.token or task.task.run_id != started.run_id:
            raise SuperLinkFailed(
                "the SuperLink gave the run to somebody else: it must run with --isolation process, and with one "
                "coordinator at a time"
            )
        self._grid = HttpGrid(*where, token=task.token)
        self._heartbeat = HeartbeatSender(make_task_heartbeat_fn_http(self._grid._runtime_client))
        self._heartbeat.start()
        given = self._grid._runtime_client.PullTaskInput(PullTaskInputRequest())
        TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
        TaskIdentity.node_id = given.context.node_id
        self._grid.set_run(run_from_proto(given.run))
        self._log("run begun")


def register(superlink: SuperLink, public_key: bytes, name: str) -> None:
    """Register a node's public key with a SuperLink, as `flwr supernode register --name NAME` does.

    Raises
    ------
    SuperLinkFailed
        It cannot be reached, or has this key or name already.
    """
    be_quiet()
    import httpx
    from flwr.proto.control_pb2 import RegisterNodeRequest
    from flwr.supercore.control import ControlHttpClient
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

    guards = [RuntimeVersionHttpInterceptor(component_name="flwr CLI")]
    where = (superlink.address, superlink.insecure, superlink.certificates)
    try:
        with ControlHttpClient.from_server_address(*where, interceptors=guards) as control:
            control.RegisterNode(RegisterNodeRequest(public_key=public_key, name=name))
    except httpx.HTTPError as error:
        raise SuperLinkFailed(
            f"the SuperLink at {superlink.address} did not register {name!r}: {_told(error)}"
        ) from error


def _refuse_other_file(name: str, answer: bytes) -> None:
    """Raise PartyFailed where a greeting was answered by what differs between two study files."""
    try:
        refusal = ENVELOPES.decode(answer)
    except MalformedMessage:
        return
    if isinstance(refusal, Refusal) and refusal.kind == "study":
        keys = ", ".join(one_line(key) for key in refusal.keys) or "what cannot be told"
        raise PartyFailed(
            f"{one_line(name) or 'a party'} has another study file than this coordinator: they differ in {keys}. Nothing "
            "was charged. Give all sides the same file, then start again"
        )


def _told(error: Exception) -> str:
    """Return what the SuperLink said."""
    from flwr.supercore.error import FlowerError

    response = getattr(error, "response", None)
    known = None if response is None else FlowerError.from_json(response.text)
    return str(error) if known is None else f"[{known.code}] {known.message}"
