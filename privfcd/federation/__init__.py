"""Parties, coordinators and the messages between them."""

from privfcd.federation.local import LocalFederation
from privfcd.federation.protocol import Empty, Federation, Message, Party, SparseMatrix, index_bytes
from privfcd.federation.recorded import RecordedFederation

__all__ = [
    "Empty",
    "Federation",
    "LocalFederation",
    "Message",
    "Party",
    "RecordedFederation",
    "SparseMatrix",
    "index_bytes",
]
