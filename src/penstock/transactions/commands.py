"""What a shard of transactions is asked, what it answers, and what it wants done. Only values.

An `error` is a wire code, 0 for none, as Kafka's newest versions have it; client_codes.py
turns it into what older ones know.
"""

from dataclasses import dataclass

from penstock.model.errors import NO_ERROR
from penstock.model.ids import TopicPartition
from penstock.transactions.records import NO_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP


@dataclass(frozen=True, slots=True)
class Markers:
    """An action: write these markers, then send MarkersWritten with this very object."""

    transactional_id: str
    producer_id: int
    epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int
    """With version 2 a marker's epoch must be newer than that of the records before it."""


@dataclass(frozen=True, slots=True)
class AbortNeedsProducerId:
    """An action: take a producer id and send AbortTimedOut with it."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class ProducerIdNeeded:
    """A reply: nothing was decided; ask again with a fresh producer id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH
    """From version 3 on what the producer has had, if it goes on after an error."""
    fresh_producer_id: int = NO_PRODUCER_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdReply:
    error: int = NO_ERROR
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """Answered with a code. AddOffsetsToTxn adds the partition of the group, a version 2 write its own."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0
    """2 from AddPartitionsToTxn 4, Produce 12 and TxnOffsetCommit 5 on, 0 before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPartitions:
    """May these be written to? Answered with one code for each, in the same order."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxn:
    transactional_id: str
    producer_id: int
    epoch: int
    is_commit: bool
    client_version: int = 0
    """2 from version 5 on, 0 before."""
    fresh_producer_id: int = NO_PRODUCER_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnReply:
    error: int = NO_ERROR
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH
    """What the producer goes on with, from version 5 on."""


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """Every partition has its marker. Answered with whether that completed the transaction."""

    markers: Markers


@dataclass(frozen=True, slots=True)
class AbortTimedOut:
    """Abort the transaction if its time is up. Answered with whether it was."""

    transactional_id: str
    fresh_producer_id: int = NO_PRODUCER_ID


@dataclass(frozen=True, slots=True)
class DescribeTransaction:
    transactional_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTransaction:
    error: int = NO_ERROR
    transactional_id: str
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = NO_TIMESTAMP
    producer_id: int = 0
    epoch: int = 0
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTransactions:
    """Answered with a tuple of ListedTransaction. States that are no state's name match nothing."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1
    """Only what was begun longer ago than this; negative for all."""
    pattern: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    transactional_id: str
    producer_id: int
    state: str
