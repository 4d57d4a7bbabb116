"""Nodes that come forward for a party and are not: whom a coordinator believes. Without a SuperLink."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from privfcd.runs.flower import grid
from privfcd.runs.flower.connection import SuperLink
from privfcd.runs.flower.grid import FlowerTransport
from privfcd.runs.wire.envelope import HELLO, greeting

PARTIES = ("north", "south")


@dataclass
class Node:
    """What a SuperLink says of a node: the name that its operator registered its key under, or none."""

    node_id: int
    name: str
    says: str


class Nodes:
    """Nodes that answer greetings with the name that they claim."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.asked: list[int] = []

    def get_nodes(self) -> list[Node]:
        return self.nodes

    def answers(self, bodies: Mapping[int, bytes], timeout: float) -> dict[int, bytes]:
        self.asked += list(bodies)
        said = {node.node_id: node.says.encode() for node in self.nodes}
        return {number: HELLO + said[number] for number, body in bodies.items() if body == greeting("digest", {})}


Meet = Callable[..., tuple[FlowerTransport, Nodes, Mapping[str, str], list[str]]]


@pytest.fixture
def meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Meet:
    """Return what a coordinator finds among nodes."""
    monkeypatch.setattr(grid, "be_quiet", lambda: None)

    def found(*nodes: Node, insecure: bool = False) -> Any:
        (tmp_path / "ca.pem").write_bytes(b"-")
        (tmp_path / "secret").write_bytes(b"-")
        link = SuperLink("127.0.0.1:1", None if insecure else tmp_path / "ca.pem", insecure)
        lines: list[str] = []
        transport = FlowerTransport(link, secret=tmp_path / "secret", poll=1e-4, log=lines.append)
        there = Nodes(list(nodes))
        transport._grid = there  # type: ignore[attr-defined]
        monkeypatch.setattr(transport, "_ask", there.answers)
        return transport, there, transport.find(SimpleNamespace(digest="digest", keys={}), PARTIES, 0.0), lines

    return found


def test_a_node_without_a_registered_name_is_no_party_whatever_it_says(meet: Meet) -> None:
    transport, there, why, lines = meet(Node(1, "north", "north"), Node(2, "", "south"), Node(3, "", "north"))
    assert transport._nodes == {"north": 1}, "a stranger neither takes a party's place nor shuts the party out"
    assert list(why) == ["south"] and "registered under that name" in why["south"]
    assert there.asked == [1], "strangers are not even told which study it is"
    assert len(lines) == 2 and lines[1].startswith("nodes without a registered name, which are not believed: 2.")
    assert "--enable-supernode-auth" in lines[1]
    transport.find(SimpleNamespace(digest="digest", keys={}), ["south"], 0.0)
    assert len(lines) == 2


def test_a_node_of_another_name_is_not_believed(meet: Meet) -> None:
    transport, there, why, _ = meet(Node(1, "north", "south"), Node(2, "elsewhere", "south"))
    assert transport._nodes == {} and set(why) == set(PARTIES) and there.asked == [1]


def test_two_nodes_of_one_name_are_both_refused(meet: Meet) -> None:
    transport, _, why, _ = meet(Node(1, "north", "north"), Node(2, "north", "north"), Node(3, "south", "south"))
    assert transport._nodes == {"south": 3} and why == {"north": "several nodes claim to be it"}


def test_without_tls_on_this_machine_nodes_have_no_names(meet: Meet) -> None:
    transport, _, why, lines = meet(Node(1, "", "north"), Node(2, "", "south"), Node(3, "west", "south"), insecure=True)
    assert transport._nodes == {"north": 1, "south": 2} and not why
    assert not any("not believed" in line for line in lines)
