"""The `privfcd` command, and `python -m privfcd`: from the start on, Ctrl-C ends it in one line."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
MESSAGE = "interrupted; nothing was charged yet"


def main() -> None:
    """Load the command line and run it.

    Loading takes some tenths of a second, in which nothing can have been charged. A signal then ends the process at once;
    afterwards the command line has handlers of its own.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    from privfcd.cli import main as run

    run()


def _end(number: int, frame: FrameType | None) -> None:
    """Say that it was interrupted, and end: nothing is open yet, and an exception would pass through half-made imports."""
    as_json = "--json" in sys.argv[1:]
    words = f'{{"error": "Interrupted", "message": "{MESSAGE}", "parties": []}}' if as_json else MESSAGE
    try:
        os.write(1 if as_json else 2, f"{words}\n".encode())
    finally:
        os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
