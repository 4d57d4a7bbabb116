"""Keys: of a party, which it makes itself and keeps; of a coordinator, a server's certificate and the secret."""

from __future__ import annotations

import datetime
import ipaddress
import os
import secrets
from pathlib import Path
from typing import Any

from privfcd.errors import InvalidParameter
from privfcd.reading import content_of, parsing


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that its owner alone can read."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


DAYS = 365

FILES = ("ca.pem", "server.pem", "server.key", "coordinator.secret")
"""What `coordinator keys` writes; parties get the first."""


def make_certificates(folder: Path, host: str = "127.0.0.1") -> None:
    """Write an authority's certificate (`ca.pem`), and a server's certificate and key (`server.pem`, `server.key`).

    The authority signs this one certificate, and its key is not kept.

    Parameters
    ----------
    folder : path
        Existing and empty of these.
    host : str
        The server's name or IP address, as parties reach it.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    try:
        reached: Any = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        reached = x509.DNSName(host)
    now = datetime.datetime.now(datetime.UTC)
    authority, server = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())

    def name(text: str) -> Any:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def certificate(subject: str, key: Any) -> Any:
        builder = x509.CertificateBuilder().subject_name(name(subject)).issuer_name(name("privfcd study authority"))
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(
            now + datetime.timedelta(days=DAYS)
        )

    root = certificate("privfcd study authority", authority)
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    root = root.add_extension(identifier, critical=False).sign(authority, hashes.SHA384())
    own = certificate("privfcd study SuperLink", server)
    own = own.add_extension(x509.SubjectAlternativeName([reached]), critical=False)
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    own = own.add_extension(signer, critical=False).sign(authority, hashes.SHA384())
    (folder / "ca.pem").write_bytes(root.public_bytes(serialization.Encoding.PEM))
    (folder / "server.pem").write_bytes(own.public_bytes(serialization.Encoding.PEM))
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    write_secret(folder / "server.key", server.private_bytes(*plain))


def make_party_key(path: Path) -> bytes:
    """Write a party's private key (OpenSSH, for its owner alone) and beside it the public half, `.pub`, which it returns.

    An elliptic-curve key (P-384), which is what Flower knows a node by. It says who the party is.

    Raises
    ------
    InvalidParameter
        There is such a file already: nothing is written over a key.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    public: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    _new(path, key.private_bytes(*plain))
    _new(path.with_name(path.name + ".pub"), public, secret=False)
    return public


def make_coordinator_keys(folder: Path, host: str) -> None:
    """Write all that a coordinator needs into a folder, made where there is none, see `FILES`: and no party's key.

    Raises
    ------
    InvalidParameter
        One of the files is there already, or the folder cannot be written to.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise InvalidParameter(f"folder {str(folder)!r} cannot be made: {error.strerror}") from error
    for name in FILES:
        if (folder / name).exists():
            raise InvalidParameter(f"{str(folder / name)!r} is there already: give a new folder, or remove it first")
    make_certificates(folder, host)
    make_secret(folder)


def public_key(path: Path) -> bytes:
    """Return the public key in a `.pub` file; a private one is refused, for it belongs on its party's machine alone."""
    content = content_of(path, f"public key {path.name!r}", 10_000)
    if b"PRIVATE" in content:
        raise InvalidParameter(
            f"{path.name!r} is a private key, which never leaves its party's machine: give its .pub file"
        )
    with parsing(f"public key {path.name!r} is none", advice="get the .pub file that `privfcd party keygen` wrote"):
        from cryptography.hazmat.primitives import serialization

        serialization.load_pem_public_key(content)
    return content


def _new(path: Path, content: bytes, *, secret: bool = True) -> None:
    try:
        if secret:
            write_secret(path, content)
        else:
            with open(path, "xb") as file:
                file.write(content)
    except FileExistsError:
        raise InvalidParameter(
            f"{str(path)!r} is there already, and nothing is written over a key: name another"
        ) from None
    except OSError as error:
        raise InvalidParameter(f"{str(path)!r} cannot be written: {error.strerror}") from error


def make_secret(folder: Path) -> Path:
    """Write the secret of those who may coordinate (`coordinator.secret`)."""
    path = folder / "coordinator.secret"
    write_secret(path, secrets.token_bytes(32))
    return path
