"""Records of a topic, read as a member of a consumer group.

The group assigns the partitions, and reading starts at its committed offsets. `commit` is called after the records
were used, so records that were in use when the process was killed are read again.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.actions.connection import REQUEST_TIMEOUT_S, Connection
from penstock.actions.librdkafka import action_error, client_config
from penstock.actions.positions import Earliest, Latest
from penstock.actions.record_format import LineRecord
from penstock.actions.topic_reader import POLL_S, Isolation, line_record

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

BATCH_COUNT_MAX: Final = 500
# The group is rebalancing. The next commit succeeds, or another member reads the records again.
_REBALANCING: Final = frozenset(
    {"REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "_ASSIGNMENT_LOST"}
)


def open_group_consumer(
    connection: Connection, group: str, position: Earliest | Latest, isolation: Isolation
) -> "Consumer":
    """Open a consumer for a GroupReader. The position applies where the group has no committed offset."""
    from confluent_kafka import Consumer

    return Consumer(
        client_config(
            connection,
            **{
                "group.id": group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest" if isinstance(position, Earliest) else "latest",
                "enable.partition.eof": True,
                "isolation.level": isolation.value,
                "fetch.wait.max.ms": 500,
            },
        )
    )


class GroupReader:
    """Reads the assigned partitions up to their end at the assignment, or without end if `follow` is set."""

    def __init__(self, consumer: "Consumer", topic: str, *, follow: bool) -> None:
        self._consumer = consumer
        self._topic = topic
        self._follow = follow
        self._ends: dict[int, int] = {}
        self._unfinished: set[int] = set()
        self.has_joined = False
        self._check_topic()

    @property
    def owns_partitions(self) -> bool:
        return bool(self._ends)

    def batches(self) -> Iterator[list[LineRecord]]:
        """Yield records as they arrive, until the ends of all assigned partitions are reached."""
        self._consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        while self._follow or self._unfinished or not self.has_joined:
            first = self._consumer.poll(POLL_S)
            if first is None:
                continue
            more = self._consumer.consume(BATCH_COUNT_MAX, timeout=0)
            records = [record for message in (first, *more) if (record := self._accept(message)) is not None]
            if records:
                yield records

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commit the offset of the next record to read of each partition that is still assigned."""
        from confluent_kafka import KafkaException, TopicPartition

        owned = [TopicPartition(self._topic, index, offset) for index, offset in offsets.items() if index in self._ends]
        if not owned:
            return
        try:
            results = self._consumer.commit(offsets=owned, asynchronous=False) or []
        except KafkaException as error:
            errors = [(error.args[0], self._topic)]
        else:
            errors = [(each.error, f"{each.topic}-{each.partition}") for each in results if each.error is not None]
        for problem, about in errors:
            if problem.name() not in _REBALANCING:
                raise action_error(problem, about=about)

    def _accept(self, message: "Message") -> LineRecord | None:
        index = message.partition()
        error = message.error()
        if error is not None:
            if error.name() != "_PARTITION_EOF":
                raise action_error(error, about=self._topic)
            self._unfinished.discard(int(index or 0))
            return None
        record = line_record(message, self._topic)
        assert record.partition is not None and record.offset is not None
        if record.partition not in self._ends:
            # Fetched before the partition was assigned to another member, which will read it.
            return None
        if not self._follow:
            end = self._ends[record.partition]
            if record.offset >= end - 1:
                self._unfinished.discard(record.partition)
            if record.offset >= end:
                return None
        return record

    def _assigned(self, consumer: "Consumer", partitions: Any) -> None:
        for each in partitions:
            _, end = consumer.get_watermark_offsets(each, timeout=REQUEST_TIMEOUT_S)
            self._ends[each.partition] = end
            self._unfinished.add(each.partition)
        self.has_joined = True

    def _revoked(self, consumer: "Consumer", partitions: Any) -> None:
        self._lost(consumer, partitions)

    def _lost(self, consumer: "Consumer", partitions: Any) -> None:
        for each in partitions:
            self._ends.pop(each.partition, None)
            self._unfinished.discard(each.partition)
        if not self._ends:
            # An eager rebalance revokes everything before it assigns again.
            self.has_joined = False

    def _check_topic(self) -> None:
        found = self._consumer.list_topics(self._topic, timeout=REQUEST_TIMEOUT_S).topics[self._topic]
        if found.error is not None:
            raise action_error(found.error, about=self._topic)
