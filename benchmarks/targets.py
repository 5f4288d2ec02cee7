"""The brokers under load, each with the durability of its figures."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from confluent_kafka.admin import AdminClient, NewTopic

_numbers = itertools.count(1)


class Server(Protocol):
    """The common interface of the Penstock process and the Apache Kafka peer."""

    name: str

    @property
    def bootstrap(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def data(self) -> Path: ...
    def start(self) -> float: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Target:
    """A broker and the topic settings for its durability."""

    name: str
    durability: str
    server: Server
    topic_config: tuple[tuple[str, str], ...] = ()

    @property
    def title(self) -> str:
        return f"{self.name} ({self.durability})"

    def new_topic(self, partitions: int = 1) -> str:
        """Create a topic and wait until its logs can be written."""
        admin = self._admin()
        name = f"bench-{next(_numbers)}"
        # The records of the raw load have a fixed timestamp, older than any retention.
        config = {"retention.ms": "-1", "file.delete.delay.ms": "100", **dict(self.topic_config)}
        admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(timeout=15)
        time.sleep(0.3)  # Kafka creates the log shortly after it has acknowledged the topic
        return name

    def delete_topic(self, name: str) -> None:
        admin = self._admin()  # kept in a variable: the future needs its client alive
        admin.delete_topics([name])[name].result(timeout=15)

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.server.bootstrap, "log_level": 3})
