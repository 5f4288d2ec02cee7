"""The choices of a worker: what it promises, what stays in order, how it retries, where it gives up to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Delivery(StrEnum):
    """What the worker promises about a record.

    at-least-once: its offset is committed after the handler succeeded or the record was
    dead-lettered; a crash in between delivers it again. at-most-once: committed before the handler
    sees it, and tried once; a crash in between loses it.
    """

    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"


class Order(StrEnum):
    """Which records wait for each other when several are handled at a time.

    partition: all of a partition, as Kafka orders them. key: those with the same key in a
    partition; records without a key wait for nobody. none: nobody waits.
    """

    PARTITION = "partition"
    KEY = "key"
    NONE = "none"


class Reject(Exception):
    """Raise it from a handler to dead-letter the record at once: trying again would not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often a record is tried and how long it waits in between.

    The wait grows by `factor` from `delay_s` up to `delay_max_s`; `jitter` spreads it by that share
    to both sides. Errors of the kinds in `never` are not tried again.
    """

    attempts: int = 5
    delay_s: float = 0.2
    factor: float = 2.0
    delay_max_s: float = 30.0
    jitter: float = 0.2
    never: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError("Retry.attempts counts the first try too: give 1 or more")
        if self.delay_s < 0 or self.delay_max_s < self.delay_s or self.factor < 1 or not 0 <= self.jitter < 1:
            raise ValueError("Retry needs 0 <= delay_s <= delay_max_s, factor >= 1 and 0 <= jitter < 1")

    def again(self, error: Exception, *, attempts: int) -> bool:
        """Say whether to try once more after so many attempts."""
        return attempts < self.attempts and not isinstance(error, (Reject, *self.never))

    def wait_s(self, *, attempts: int, chance: float) -> float:
        """Return the wait after so many attempts; `chance` lies between 0 and 1."""
        # The power is bounded first: attempts may be thousands and a float ends at 10**308.
        doublings = min(attempts - 1, 64)
        wait = min(self.delay_s * self.factor**doublings, self.delay_max_s)
        return wait * (1 + self.jitter * (2 * chance - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """Where records go that could not be handled.

    `topic` may hold `{topic}` for the source's name. A topic that is missing is created with the
    broker's defaults and these `settings`; its retention decides how long dead letters are kept.
    """

    topic: str = "{topic}.dlq"
    create: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)

    def topic_for(self, source: str) -> str:
        return self.topic.replace("{topic}", source)

    def may_hold(self, topic: str) -> bool:
        """Say whether a topic of this name is one that dead letters go to."""
        before, place, behind = self.topic.partition("{topic}")
        if not place:
            return topic == self.topic
        return len(topic) > len(before + behind) and topic.startswith(before) and topic.endswith(behind)
