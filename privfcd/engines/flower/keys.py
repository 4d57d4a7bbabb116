"""Certificates and node keys for one machine: for studies, tests and trials. Elsewhere use those of your own authority."""

from __future__ import annotations

import datetime
import ipaddress
import os
import secrets
from pathlib import Path
from typing import Any


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that its owner alone can read."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def make_certificates(folder: Path, host: str = "127.0.0.1") -> None:
    """Write an authority's certificate (`ca.pem`), and a server's certificate and key (`server.pem`, `server.key`).

    Parameters
    ----------
    folder : path
        Existing and empty of these.
    host : str
        The server's IP address.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = datetime.datetime.now(datetime.UTC)
    authority, server = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())

    def name(text: str) -> Any:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def certificate(subject: str, key: Any) -> Any:
        builder = x509.CertificateBuilder().subject_name(name(subject)).issuer_name(name("privfcd trial authority"))
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(
            now + datetime.timedelta(days=30)
        )

    root = certificate("privfcd trial authority", authority)
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority.public_key())
    root = root.add_extension(identifier, critical=False).sign(authority, hashes.SHA384())
    own = certificate("privfcd trial SuperLink", server)
    own = own.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), critical=False)
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    own = own.add_extension(signer, critical=False).sign(authority, hashes.SHA384())
    (folder / "ca.pem").write_bytes(root.public_bytes(serialization.Encoding.PEM))
    (folder / "server.pem").write_bytes(own.public_bytes(serialization.Encoding.PEM))
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    write_secret(folder / "server.key", server.private_bytes(*plain))


def make_node_key(folder: Path, name: str) -> bytes:
    """Write a node's private key (`NAME.key`, OpenSSH), and return the public half as a SuperLink registers it."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP384R1())
    plain = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    write_secret(folder / f"{name}.key", key.private_bytes(*plain))
    public: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return public


def make_secret(folder: Path) -> Path:
    """Write the secret of those who may coordinate (`coordinator.secret`)."""
    path = folder / "coordinator.secret"
    write_secret(path, secrets.token_bytes(32))
    return path
