"""Commands to a shard of `__transaction_state`, their replies, and actions, as plain values.

`error` is a wire code of Kafka's newest versions, 0 for none; client_codes.py
translates it for older ones.
"""

from dataclasses import dataclass

from penstock.model.errors import NO_ERROR
from penstock.model.ids import TopicPartition
from penstock.transactions.records import NO_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP


@dataclass(frozen=True, slots=True)
class Markers:
    """An action: write these markers, then submit MarkersWritten with this same object."""

    transactional_id: str
    producer_id: int
    epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int
    """With version 2 the epoch of a marker must be newer than that of the records before it."""


@dataclass(frozen=True, slots=True)
class AbortNeedsProducerId:
    """An action: allocate a producer id and submit AbortTimedOut with it."""

    transactional_id: str


@dataclass(frozen=True, slots=True)
class ProducerIdNeeded:
    """A reply: nothing was decided; submit the command again with a new producer id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    transactional_id: str
    timeout_ms: int
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH
    """From version 3 on the producer's current epoch, if it continues after an error."""
    fresh_producer_id: int = NO_PRODUCER_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdReply:
    error: int = NO_ERROR
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """An addition of partitions, answered with a code. AddOffsetsToTxn adds the group's, a version 2 write its own."""

    transactional_id: str
    producer_id: int
    epoch: int
    partitions: frozenset[TopicPartition]
    client_version: int = 0
    """2 from AddPartitionsToTxn 4, Produce 12 and TxnOffsetCommit 5 on, 0 before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPartitions:
    """A check that partitions are in the transaction, answered with one code for each, in the same order."""

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
    """The epoch with which the producer continues, from version 5 on."""


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """A report that every partition has its marker, answered with whether this completed the transaction."""

    markers: Markers


@dataclass(frozen=True, slots=True)
class AbortTimedOut:
    """An abort of a transaction if it has timed out, answered with whether it has."""

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
    """A request answered with a tuple of ListedTransaction. An unknown state name matches nothing."""

    states: frozenset[str] = frozenset()
    producer_ids: frozenset[int] = frozenset()
    duration_ms: int = -1
    """Only transactions that are open longer than this; negative for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    transactional_id: str
    producer_id: int
    state: str
