"""The way from a SuperNode's app to the party's process."""

from __future__ import annotations

import socket
import struct
import threading
import time
from pathlib import Path

import pytest

from privfcd.errors import InvalidParameter
from privfcd.runs.flower.relay import ask, listen


def test_bytes_go_there_and_back_and_only_the_owner_may_ask(tmp_path: Path) -> None:
    folder = tmp_path / "relay"
    folder.mkdir(mode=0o700)
    place = folder / "s"
    stop = threading.Event()
    lines: list[str] = []
    thread = threading.Thread(
        target=listen, args=(lambda body: body[::-1], place), kwargs={"until": stop.is_set, "log": lines.append}
    )
    thread.start()
    try:
        while not place.exists():
            time.sleep(0.01)
        for body in (b"", b"abc", bytes(range(256)) * 9000):
            assert ask(place, body) == body[::-1]
        with socket.socket(socket.AF_UNIX) as odd:
            odd.connect(str(place))
            odd.sendall(struct.pack(">Q", 2**62))
        with socket.socket(socket.AF_UNIX) as odd:
            odd.connect(str(place))
            odd.sendall(struct.pack(">Q", 100) + b"cut")
        assert ask(place, b"still here") == b"ereh llits"
    finally:
        stop.set()
        thread.join(10)
    assert not place.exists() and sum("went away" in line for line in lines) == 2


def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    with pytest.raises(InvalidParameter, match="mode 700"):
        listen(lambda body: body, folder / "s")
    with pytest.raises(InvalidParameter, match="can be made"):
        listen(lambda body: body, tmp_path / "none" / "s")
