"""The command line: parses, calls, prints. Exit codes: 0 done, 2 bad input, 3 budget refused."""

from privfcd.cli.main import main

__all__ = ["main"]
