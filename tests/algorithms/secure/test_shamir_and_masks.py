"""Shamir's shares by their definition; masks from keys of 256 bits."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("cryptography")

from privfcd.algorithms.secure import masks, shamir
from privfcd.errors import PartyFailed


def is_prime(number: int) -> bool:
    """Return whether a number passes Miller and Rabin's test for 40 random bases."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(40):
        power = pow(random.Random(number + _).randrange(2, number - 1), odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


def test_the_prime_is_one_and_is_above_all_secrets() -> None:
    assert is_prime(shamir.PRIME)
    assert 2**256 < shamir.PRIME < 2 ** (8 * shamir.SHARE)


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32, bytes(range(32))])
def test_any_shares_of_the_threshold_give_the_secret(secret: bytes) -> None:
    shares = shamir.split(secret, range(1, 7), 4)
    for chosen in itertools.combinations(shares, 4):
        assert shamir.join({x: shares[x] for x in chosen}) == secret
    assert shamir.join(shares) == secret


def test_fewer_shares_fit_every_secret() -> None:
    """With any share put in the missing place there is a secret: three shares of four exclude none."""
    shares = shamir.split(bytes(range(32)), range(1, 5), 4)
    three = {x: shares[x] for x in (1, 2, 3)}
    found = {shamir.join({**three, 4: (7 * guess).to_bytes(shamir.SHARE, "big")}) for guess in range(20)}
    assert len(found) == 20


def test_one_share_of_two_is_uniform() -> None:
    """Its first bits, over many splits of one secret: a chi-square test at a level of 1e-6."""
    counts = Counter(shamir.split(bytes(32), (1, 2), 2)[1][1] >> 5 for _ in range(4000))
    assert sum((counts[i] - 500) ** 2 / 500 for i in range(8)) < 42


@pytest.mark.parametrize("points", [(0, 1, 2), (1, 1, 2), (1, 2)])
def test_points_that_give_a_secret_away_are_refused(points: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="points"):
        shamir.split(bytes(32), points, 3)


def test_wrong_shares_are_noticed_where_they_give_no_secret() -> None:
    big = (2**256 + 5).to_bytes(shamir.SHARE, "big")
    with pytest.raises(ValueError, match="no secret"):
        shamir.join({1: big})


def test_seeds_whose_words_have_one_xor_give_other_masks() -> None:
    """A generator that folds its seed to 32 bits by XOR gives the same mask to both."""
    first = bytes(range(32))
    words = np.frombuffer(first, dtype=np.uint32).copy()
    words[:2] = words[1], words[0]
    second = words.tobytes()
    assert np.bitwise_xor.reduce(np.frombuffer(second, np.uint32)) == np.bitwise_xor.reduce(
        np.frombuffer(first, np.uint32)
    )
    assert not (masks.mask(first, 100) == masks.mask(second, 100)).any()


def test_masks_reach_all_64_bits_and_are_balanced() -> None:
    stream = masks.mask(b"k" * 32, 50_000)
    assert stream.dtype == np.uint64
    bits = np.unpackbits(stream.view(np.uint8)).reshape(-1, 64).mean(axis=0)
    assert np.abs(bits - 0.5).max() < 6 * 0.5 / np.sqrt(50_000)
    assert (masks.mask(b"k" * 32, 7) == stream[:7]).all()


def test_keys_of_other_contexts_and_purposes_differ() -> None:
    made = {masks.derived(b"s" * 32, context, purpose) for context in (b"a", b"b") for purpose in ("x", "y")}
    assert len(made) == 4


def test_sealed_shares_that_were_changed_or_moved_are_refused() -> None:
    sealed = masks.seal(b"k" * 32, b"content", b"from a to b")
    assert masks.unseal(b"k" * 32, sealed, b"from a to b") == b"content"
    for key, content, about in (
        (b"l" * 32, sealed, b"from a to b"),
        (b"k" * 32, sealed[:-1] + bytes([sealed[-1] ^ 1]), b"from a to b"),
        (b"k" * 32, sealed, b"from b to a"),
        (b"k" * 32, b"", b"from a to b"),
    ):
        with pytest.raises(PartyFailed, match="changed"):
            masks.unseal(key, content, about)


def test_keys_that_agree_with_everybody_on_the_same_are_refused() -> None:
    with pytest.raises(PartyFailed, match="none"):
        masks.agreed(masks.new_key(), bytes(32))


def test_signatures() -> None:
    identity = masks.new_identity()
    public = masks.raw(identity.public_key())
    assert masks.signed_by(public, identity.sign(b"x"), b"x")
    assert not masks.signed_by(public, identity.sign(b"x"), b"y")
    assert not masks.signed_by(masks.raw(masks.new_identity().public_key()), identity.sign(b"x"), b"x")
    assert not masks.signed_by(bytes(31), identity.sign(b"x"), b"x")
