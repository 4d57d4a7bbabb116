"""How to reach a SuperLink: its address, the certificate that it is known by, and what proves who is asking."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from privfcd import checks
from privfcd.errors import InvalidParameter


@dataclass(frozen=True)
class SuperLink:
    """A SuperLink.

    Parameters
    ----------
    address : str
        HOST:PORT.
    root_certificates : path, optional
        PEM file of the authority that signed its certificate; the system's by default.
    insecure : bool
        Without TLS: on the loopback interface only.
    """

    address: str
    root_certificates: str | os.PathLike[str] | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        host, _, port = self.address.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise checks.refuse("superlink", self.address, "HOST:PORT")
        if self.insecure and not is_loopback(host):
            raise InvalidParameter(
                f"insecure must be left out for {self.address}: without TLS messages stay on this machine (127.0.0.1)"
            )
        if self.insecure and self.root_certificates is not None:
            raise InvalidParameter("give root certificates or insecure, not both")
        if self.root_certificates is not None and not Path(self.root_certificates).is_file():
            raise checks.refuse("root_certificates", str(self.root_certificates), "an existing PEM file")

    @property
    def certificates(self) -> bytes | None:
        """The authority's certificate."""
        return None if self.root_certificates is None else Path(self.root_certificates).read_bytes()


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
