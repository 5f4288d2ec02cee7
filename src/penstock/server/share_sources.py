"""Metrics of share groups that are computed when they are scraped. Goes to shares/ and groups/service.py."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from penstock.metrics import declared
from penstock.metrics.declared import Declaration
from penstock.metrics.exposition import Sample
from penstock.shares.states import AcknowledgeType, RecordState

if TYPE_CHECKING:
    from penstock.handlers.support.context import Context
    from penstock.metrics.metrics import Metrics
    from penstock.shares.flight import Flight

_STATES: Final = ("Empty", "Stable", "Dead")


def add_share_sources(metrics: "Metrics", context: "Context") -> None:
    leader, coordinator = context.shares.leader, context.shares.coordinator
    counters = leader.counters

    def add(declaration: Declaration, value: Callable[[], float]) -> None:
        metrics.register(declaration, lambda: [((), value())])

    def groups() -> Iterator[Sample]:
        found = Counter(context.groups.share_states())
        return (((state,), found[state]) for state in _STATES)

    def of_flights(value: "Callable[[Flight], int]") -> Callable[[], Iterator[Sample | None]]:
        def source() -> Iterator[Sample | None]:
            for led in leader:
                if led.flight is not None:
                    yield (led.key.group, led.partition.topic, str(led.key.partition)), value(led.flight)

        return source

    def waiting() -> int:
        return sum(
            each.size
            for led in leader
            if led.flight is not None and led.flight.has_archiving
            for each in led.flight.ranges
            if each.state is RecordState.ARCHIVING
        )

    metrics.register(declared.SHARE_GROUPS, groups)
    metrics.register(
        declared.SHARE_ACKNOWLEDGEMENTS,
        lambda: [((kind.name.capitalize(),), counters.acknowledged[kind]) for kind in AcknowledgeType],
    )
    metrics.register(declared.SHARE_IN_FLIGHT, of_flights(lambda flight: flight.end - flight.start))
    metrics.register(declared.SHARE_IN_FLIGHT_BATCHES, of_flights(lambda flight: len(flight.ranges)))
    metrics.register(declared.SHARE_UNFINISHED, of_flights(lambda flight: flight.end - flight.start - flight.finished))
    add(declared.SHARE_LOCK_TIMEOUTS, lambda: counters.lock_timeouts)
    add(declared.SHARE_SESSIONS, lambda: len(leader.sessions))
    add(declared.SHARE_SESSION_PARTITIONS, lambda: leader.sessions.partition_count)
    add(declared.SHARE_WRITES, lambda: coordinator.writes)
    add(declared.SHARE_STATES, lambda: coordinator.count)
    add(declared.SHARE_LETTERS, lambda: counters.letters)
    add(declared.SHARE_LETTER_FAILURES, lambda: counters.letter_failures)
    add(declared.SHARE_LETTERS_WAITING, waiting)
