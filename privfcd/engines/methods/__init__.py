"""What a study's method is made of on both sides: its messages, a party's half, and the coordinator's run."""

from privfcd.engines.methods.base import Method
from privfcd.engines.methods.table import METHODS, method_of

__all__ = ["METHODS", "Method", "method_of"]
