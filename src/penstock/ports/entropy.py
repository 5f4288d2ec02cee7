"""Chance, in named streams, so that a simulator can seed each one apart from the others."""

from random import Random
from typing import Protocol
from uuid import UUID


class Entropy(Protocol):
    def uuid(self) -> UUID:
        """A fresh random id. Never one that starts with a dash in Kafka's base64 spelling."""
        ...

    def stream(self, name: str) -> Random:
        """The generator of that name; the same object each time."""
        ...
