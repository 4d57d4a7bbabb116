"""The command line: parses, calls, prints.

Exit codes: 0 done; 1 an audit's claim is violated, or a ledger has problems; 2 bad input, a result that could not be
written, or a fault of privfcd; 3 budget refused; 130 interrupted.
"""

from privfcd.cli.main import main

__all__ = ["main"]
