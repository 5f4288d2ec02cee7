"""Randomness, in named streams, so that a simulator can seed each of them separately."""

from random import Random
from typing import Protocol
from uuid import UUID


class Entropy(Protocol):
    def uuid(self) -> UUID:
        """Return a new random id, never one that begins with a dash in Kafka's base64 form."""
        ...

    def stream(self, name: str) -> Random:
        """Return the generator of that name; the same object each time."""
        ...
