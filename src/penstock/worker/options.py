"""The options of a worker: delivery guarantee, ordering, retries and dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Delivery(StrEnum):
    """The delivery guarantee.

    at-least-once: the offset is committed after the handler succeeded or the record was dead-lettered; after a
    crash in between it is delivered again. at-most-once: the offset is committed before the handler runs, and the
    handler runs once; after a crash in between the record is lost. queue: the worker is a member of a share group; each
    record is acknowledged on its own, and any number of workers share a partition. The broker decides about retries and
    dead letters, so `order`, `retry.attempts` and `dead_letters` have no effect.
    """

    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"
    QUEUE = "queue"


class Order(StrEnum):
    """Which records are handled in order if several are handled concurrently.

    partition: all records of a partition, as in Kafka. key: records with the same key in a partition; records
    without a key are not ordered. none: no order.
    """

    PARTITION = "partition"
    KEY = "key"
    NONE = "none"


class Reject(Exception):
    """Raise it from a handler to dead-letter the record without retries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a record is tried, and the delay between attempts.

    The delay grows by `factor` from `delay_s` to `delay_max_s`; `jitter` varies it by up to that fraction in both
    directions. Errors of the types in `never` are not retried.
    """

    attempts: int = 5
    delay_s: float = 0.2
    factor: float = 2.0
    delay_max_s: float = 30.0
    jitter: float = 0.2
    never: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError("Retry.attempts includes the first attempt: set it to 1 or more")
        if self.delay_s < 0 or self.delay_max_s < self.delay_s or self.factor < 1 or not 0 <= self.jitter < 1:
            raise ValueError("Retry requires 0 <= delay_s <= delay_max_s, factor >= 1 and 0 <= jitter < 1")

    def again(self, error: Exception, *, attempts: int) -> bool:
        """Return whether to retry after this many attempts."""
        return attempts < self.attempts and not isinstance(error, (Reject, *self.never))

    def wait_s(self, *, attempts: int, chance: float) -> float:
        """Return the delay after this many attempts; `chance` is between 0 and 1."""
        # Limit the exponent first: attempts may be in the thousands and a float ends at 10**308.
        doublings = min(attempts - 1, 64)
        wait = min(self.delay_s * self.factor**doublings, self.delay_max_s)
        return wait * (1 + self.jitter * (2 * chance - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """Where records go that could not be handled.

    `topic` may contain `{topic}` for the name of the source. A missing topic is created with the broker's defaults
    and these `settings`; its retention determines how long dead letters are kept.
    """

    topic: str = "{topic}.dlq"
    create: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)

    def topic_for(self, source: str) -> str:
        return self.topic.replace("{topic}", source)

    def may_hold(self, topic: str) -> bool:
        """Return whether a topic of this name may be a dead-letter topic."""
        before, place, behind = self.topic.partition("{topic}")
        if not place:
            return topic == self.topic
        return len(topic) > len(before + behind) and topic.startswith(before) and topic.endswith(behind)
