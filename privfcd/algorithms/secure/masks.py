"""Keys, masks, sealed shares and signatures of a secure sum, all from `cryptography` (OpenSSL).

Masks are the key stream of ChaCha20 under a key of 256 bits, in words of 64 bits, so uniform modulo 2^64. Keys come from
HKDF with SHA-256, of what two X25519 keys agree on, or of a seed of 32 random bytes, for one release and one purpose: no
key is used twice. Identities are Ed25519 keys. Shares pass sealed with ChaCha20-Poly1305.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.reading import content_of, parsing

KEY, SIGNATURE, TAG = 32, 64, 16
"""Bytes of a key, public or not, of a signature, and of what sealing adds."""

Words = NDArray[np.uint64]


def need() -> None:
    """Raise InvalidParameter with what to install where `cryptography` is missing."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise InvalidParameter("secure sums need the package cryptography: pip install 'privfcd[secure]'") from None


def new_identity() -> Any:
    """Return a new long-term key of a party (Ed25519)."""
    need()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate()


def write_identity(path: Path) -> bytes:
    """Write a new long-term key for its owner alone (OpenSSH), and return the 32 bytes of its public half.

    Raises
    ------
    InvalidParameter
        There is such a file already, or it cannot be written.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    identity = new_identity()
    content = identity.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidParameter(f"{str(path)!r} is there already, and nothing is written over a key") from None
    except OSError as error:
        raise InvalidParameter(f"{str(path)!r} cannot be written: {error.strerror}") from error
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    return raw(identity.public_key())


def read_identity(path: str | os.PathLike[str]) -> Any:
    """Return a long-term key from its file.

    Raises
    ------
    InvalidParameter
        It cannot be read, or is another kind of key.
    """
    need()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    with parsing(f"identity {Path(path).name!r} is none", advice="give the file that `privfcd party keygen` wrote"):
        key = load_ssh_private_key(content_of(path, f"identity {Path(path).name!r}", 10_000), None)
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidParameter(
            f"identity {Path(path).name!r} must be an Ed25519 key, which `privfcd party keygen` writes beside the node's key"
        )
    return key


def raw(public: Any) -> bytes:
    """Return the 32 bytes of a public key."""
    content: bytes = public.public_bytes_raw()
    return content


def new_key() -> Any:
    """Return a new key for one release (X25519)."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.generate()


def key_from(secret: bytes) -> Any:
    """Return the X25519 key of these 32 bytes."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(secret)


def agreed(own: Any, other: bytes) -> bytes:
    """Return what an own key and another's public one agree on; PartyFailed for a key that agrees with all on the same."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    try:
        shared: bytes = own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError:
        raise PartyFailed("a party's key for this sum is none") from None
    return shared


def derived(secret: bytes, context: bytes, purpose: str) -> bytes:
    """Return a key of 32 bytes for one purpose in one context."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    key: bytes = HKDF(SHA256(), KEY, salt=context, info=purpose.encode()).derive(secret)
    return key


def mask(key: bytes, size: int) -> Words:
    """Return `size` words of the key's stream: uniform modulo 2^64 to whoever does not have the key."""
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * size))
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64)


def seal(key: bytes, content: bytes, about: bytes) -> bytes:
    """Return content that only who has the key can read or change; the key seals nothing else."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    sealed: bytes = ChaCha20Poly1305(key).encrypt(bytes(12), content, about)
    return sealed


def unseal(key: bytes, sealed: bytes, about: bytes) -> bytes:
    """Return what was sealed; PartyFailed where it was not sealed with this key about this."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        content: bytes = ChaCha20Poly1305(key).decrypt(bytes(12), sealed, about)
    except (InvalidTag, ValueError):
        raise PartyFailed("sealed shares of a key were changed on the way") from None
    return content


def signed_by(identity: bytes, signature: bytes, content: bytes) -> bool:
    """Return whether the party of this identity signed the content."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(identity).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True


def digest(*parts: bytes) -> bytes:
    """Return a digest of the parts, each with its length: no two lists of parts have one digest."""
    made = hashlib.sha256()
    for part in parts:
        made.update(len(part).to_bytes(8, "big"))
        made.update(part)
    return made.digest()
