"""Parties and coordinators on Flower 1.42: messages pass through a SuperLink, with TLS and node keys.

The parts of Flower that are used are those that SuperNodes and SuperExecs themselves use (`pip install
'privfcd[flower]'`): Flower keeps registration, authentication, heartbeats, storage and delivery. What it would do besides,
running app code that it was sent in a new process for every message, is left out: a party is one long-lived process that
answers bytes with bytes and runs nothing but what is installed on its own machine.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

from privfcd.errors import InvalidParameter

RECORD, BODY = "privfcd", "body"
"""Where the bytes are in a Flower message."""

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_LOG_LEVEL": "WARNING",
    "GRPC_VERBOSITY": "error",
}
"""Flower calls home by default, for telemetry and updates; hospitals' machines may not."""


def be_quiet() -> None:
    """Switch Flower's telemetry and update checks off, before it is imported; what the user has set stays.

    Raises
    ------
    InvalidParameter
        Flower is not installed.
    """
    if find_spec("flwr") is None:
        raise InvalidParameter("parties on different machines need Flower: pip install 'privfcd[flower]'")
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
