"""SCRAM credentials of users that do not exist, so that a login does not reveal which users exist.

The salt and the keys are derived from the name and a secret of the cluster, so they are the same for every login and
on every node. The size of the salt and the number of iterations are those of some existing user: programs that create
users differ in both, and a name with other values than all users have would be unknown.
"""

import hashlib
import hmac
from collections.abc import Iterable
from random import Random
from typing import Final, NamedTuple

from penstock.security.scram import HASHES, ITERATIONS_MIN, SALT_SIZE, ScramCredential

_SECRET_SIZE: Final = 32
SHAPES_MAX: Final = 16
"""How many shapes are considered: each costs an HMAC per login."""


class Shape(NamedTuple):
    """What a client sees of a credential besides the salt itself."""

    salt_size: int
    iterations: int


DEFAULT_SHAPE: Final = Shape(SALT_SIZE, ITERATIONS_MIN)
"""The shape of the users that `penstock user add` creates."""


def new_secret(random: Random) -> str:
    """Return a secret for a cluster that has none."""
    return random.randbytes(_SECRET_SIZE).hex()


def shapes_of(credentials: Iterable[ScramCredential]) -> tuple[Shape, ...]:
    """Return the shapes of existing credentials."""
    found = {Shape(len(each.salt), each.iterations) for each in credentials}
    return tuple(sorted(found)[:SHAPES_MAX]) or (DEFAULT_SHAPE,)


class UnknownUsers:
    """The credentials of unknown users for one mechanism."""

    def __init__(self, mechanism: str, secret: bytes, shapes: tuple[Shape, ...]) -> None:
        self._key = hmac.digest(secret, mechanism.encode(), "sha256")
        self._digest_size = hashlib.new(HASHES[mechanism]).digest_size
        self._shapes = shapes

    def credential(self, user: str) -> ScramCredential:
        """Return a credential that no password matches."""
        seed = hmac.digest(self._key, user.encode(), "sha512")
        shape = self._shape(seed)
        salt = hashlib.shake_256(seed).digest(shape.salt_size)
        stored = hmac.digest(self._key, seed, "sha512")[: self._digest_size]
        return ScramCredential(salt, stored, bytes(self._digest_size), shape.iterations)

    def _shape(self, seed: bytes) -> Shape:
        """Choose a shape by rendezvous hashing: a new shape changes the choice only for the names that get it."""
        return max(self._shapes, key=lambda shape: hmac.digest(seed, b"%d %d" % shape, "sha256"))
