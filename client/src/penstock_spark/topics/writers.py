"""Spark's writers: tasks write in transactions and leave them open; the driver decides, then ends them.

Exactly-once for a stream: `commit` appends one decision record and then commits the transactions that it names.
A batch that runs again finds its decision and writes nothing. docs/spark.md describes the protocol and its failures.
Calls sink_task.py on executors and decisions.py on the driver. Raises for columns that a record does not have.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from penstock_client.errors import (
    INVALID_PRODUCER_EPOCH,
    INVALID_TRANSACTION_TIMEOUT,
    PRODUCER_FENCED,
    BrokerError,
    PenstockClientError,
    nearest,
)
from penstock_client.protocol.cluster import Cluster
from penstock_client.protocol.coordination import (
    Transaction,
    end_all,
    init_producer,
    open_transactions,
)
from penstock_spark.topics.decisions import BatchDecision, DecisionLog
from penstock_spark.topics.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("penstock_spark")

_TYPES: Final = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
# Columns of rows that were read from a topic, with their origin.
_IGNORED: Final = ("offset", "timestampType")
# Runs whose first batch this worker has checked: later batches of a run cannot have been decided before.
_looked_up: set[tuple[str, str]] = set()


@dataclass
class Written(WriterCommitMessage):
    """The result of one task: the transaction it left open, or that its batch was already decided."""

    query: str
    run: str
    partition: int
    rows: int
    transaction: Transaction | None
    decided: bool = False


@dataclass(frozen=True, slots=True)
class _Task:
    """The identity of a task."""

    query: str
    run: str
    batch: int | None
    partition: int
    attempt: int


def batch_writer(options: SinkOptions, schema: StructType, *, overwrite: bool) -> PenstockBatchWriter:
    _check(options, schema)
    if overwrite:
        raise PenstockClientError("a topic cannot be overwritten: use mode('append')")
    return PenstockBatchWriter(options, "batch-" + secrets.token_hex(8))


def stream_writer(options: SinkOptions, schema: StructType, *, overwrite: bool) -> PenstockStreamWriter:
    _check(options, schema)
    if overwrite:
        raise PenstockClientError("a topic cannot be overwritten: use outputMode('append') or 'update'")
    return PenstockStreamWriter(options)


class PenstockBatchWriter(DataSourceArrowWriter):
    """A batch writer: all rows of a job become visible after its last task, or none do."""

    def __init__(self, options: SinkOptions, write_id: str) -> None:
        self._options = options
        self._write_id = write_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        partition, attempt, _ = _context()
        return _write(self._options, _Task(self._write_id, "once", None, partition, attempt), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with self._options.connect.cluster() as cluster:
            open_ones = [one.transaction for one in _written(messages) if one.transaction is not None]
            lost = end_all(cluster, open_ones, commit=True)
            if lost:
                raise _lost(lost, self._options)
            _sweep(cluster, self._options, self._write_id)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _abort(self._options, _written(messages), keep=())


class PenstockStreamWriter(DataSourceStreamArrowWriter):
    """A stream writer: each micro-batch is written exactly once, or at least once if so configured."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        partition, attempt, properties = _context()
        query = properties("sql.streaming.queryId")
        batch = properties("streaming.sql.batchId")
        if not query or batch is None:
            raise PenstockClientError("Spark did not set the query id; use guarantee=at-least-once")
        run = (properties("spark.jobGroup.id") or query)[:8]
        return _write(self._options, _Task(query, run, int(batch), partition, attempt), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if not self._options.exactly_once:
            return
        written = _written(messages)
        if not any(one.decided or one.transaction for one in written):
            return  # nothing was written
        with self._options.connect.cached_cluster() as cluster:
            _commit_stream(cluster, self._options, written, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Abort the batch unless it was decided: if `commit` failed half-way, the next run finishes it."""
        written = _written(messages)
        if not self._options.exactly_once or not written:
            return
        query = written[0].query
        try:
            with _impatient(self._options) as cluster:
                decision = DecisionLog(cluster, self._options.decision_topic, query).last()
        except PenstockClientError as error:
            log.warning(
                "cannot determine whether batch %d was decided; its transactions are left open: %s", batchId, error
            )
            return
        keep = decision.transactions if decision is not None and decision.batch >= batchId else ()
        _abort(self._options, written, keep=keep)


def _commit_stream(cluster: Cluster, options: SinkOptions, written: Sequence[Written], batch: int) -> None:
    query, run = written[0].query, written[0].run
    decisions = DecisionLog(cluster, options.decision_topic, query)
    fresh = [one for one in written if one.transaction is not None]
    before = decisions.last() if any(one.decided for one in written) else None
    if before is not None:
        _settle_rest(cluster, options, before, written)
    if fresh:
        mine = BatchDecision(
            query,
            batch,
            run,
            tuple(one.transaction for one in fresh if one.transaction is not None),
            tuple(one.partition for one in fresh),
            round=before.round + 1 if before is not None else 0,
        )
        decided = decisions.decide(mine)
        if decided != mine:
            _abort(options, fresh, keep=decided.transactions)
            end_all(cluster, decided.transactions, commit=True)
            if decided.batch > batch:
                return
            raise PenstockClientError(
                f"another run ({decided.run}) of this query committed batch {batch} first; this run's rows were "
                "aborted. Two drivers share one checkpoint: stop one of them."
            )
        lost = end_all(cluster, mine.transactions, commit=True)
        if lost:
            raise _lost(lost, options)
    _sweep(cluster, options, query)


def _settle_rest(cluster: Cluster, options: SinkOptions, before: BatchDecision, written: Sequence[Written]) -> None:
    """End the transactions of an earlier decision whose partitions have no task now."""
    seen = {one.partition for one in written}
    pairs = zip(before.partitions, before.transactions, strict=True)
    rest = [one for partition, one in pairs if partition not in seen]
    lost = end_all(cluster, rest, commit=True)
    if lost:
        raise _lost(lost, options)


def _write(options: SinkOptions, task: _Task, batches: Iterator[pa.RecordBatch]) -> Written:
    from penstock_client.protocol.producer import Producer
    from penstock_spark.topics.sink_task import RowWriter, gathered

    with options.connect.cached_cluster() as cluster:
        decided = options.exactly_once and task.batch is not None and _looks_decided(cluster, options, task)
        if decided and not _must_rewrite(cluster, options, task):
            return Written(task.query, task.run, task.partition, 0, None, decided=True)
        writer: RowWriter | None = None
        transaction: Transaction | None = None
        try:
            for batch in gathered(batches):
                if writer is None:
                    transaction, producer_id, epoch = _begin(cluster, options, task)
                    producer = Producer(cluster, producer_id, epoch, transaction)
                    writer = RowWriter(cluster, producer, options, task.partition)
                writer.write(batch)
            if writer is None:
                return Written(task.query, task.run, task.partition, 0, None, decided=decided)
            producer.flush()
        except BaseException as error:
            if transaction is not None:
                _try_abort(options, [transaction])
            if isinstance(error, BrokerError) and error.code in (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED):
                raise PenstockClientError(
                    f"{error}: another process ended the transaction, most likely because the batch took longer than "
                    f"transactionTimeout ({options.transaction_timeout_ms} ms). Increase it, or make batches smaller."
                ) from error
            raise
        return Written(task.query, task.run, task.partition, writer.rows, transaction, decided=decided)


def _begin(cluster: Cluster, options: SinkOptions, task: _Task) -> tuple[Transaction | None, int, int]:
    if not options.exactly_once:
        producer_id, epoch = init_producer(cluster, None, options.transaction_timeout_ms)
        return None, producer_id, epoch
    # One id per attempt, so that two attempts of one task never end each other's transaction.
    name = f"{_prefix(options, task.query)}{task.run}.{task.partition}.{task.attempt}"
    try:
        producer_id, epoch = init_producer(cluster, name, options.transaction_timeout_ms)
    except BrokerError as error:
        if error.code != INVALID_TRANSACTION_TIMEOUT:
            raise
        raise PenstockClientError(
            f"transactionTimeout is {options.transaction_timeout_ms} ms, more than the broker allows: lower it, or "
            "raise transaction.max.timeout.ms on the broker"
        ) from error
    return Transaction(name, producer_id, epoch), producer_id, epoch


def _looks_decided(cluster: Cluster, options: SinkOptions, task: _Task) -> bool:
    """Return whether an earlier run decided this batch, which is possible only for the first batch of a run."""
    assert task.batch is not None
    if (task.query, task.run) in _looked_up:
        return False
    decision = DecisionLog(cluster, options.decision_topic, task.query).last()
    if decision is None or decision.batch < task.batch:
        _looked_up.add((task.query, task.run))
        return False
    return True


def _must_rewrite(cluster: Cluster, options: SinkOptions, task: _Task) -> bool:
    """Finish this partition's part of a decision. Return True if its transaction timed out before that."""
    decision = DecisionLog(cluster, options.decision_topic, task.query).last()
    assert decision is not None and task.batch is not None
    if decision.batch > task.batch:
        return False
    return bool(end_all(cluster, decision.of_partition(task.partition), commit=True))


def _sweep(cluster: Cluster, options: SinkOptions, query: str) -> None:
    """Abort open transactions of failed, speculative or zombie attempts, so that readers need not wait for timeouts."""
    try:
        for name in open_transactions(cluster, _prefix(options, query)):
            init_producer(cluster, name, options.transaction_timeout_ms)
    except PenstockClientError as error:
        log.warning("cannot list open transactions of %s; they will time out: %s", query, error)


def _abort(options: SinkOptions, written: Sequence[Written], *, keep: Sequence[Transaction]) -> None:
    kept = set(keep)
    _try_abort(options, [one.transaction for one in written if one.transaction and one.transaction not in kept])


def _try_abort(options: SinkOptions, transactions: Sequence[Transaction]) -> None:
    """Abort on a best-effort basis: the next run or a timeout aborts the rest; nothing is committed."""
    try:
        with _impatient(options) as cluster:
            end_all(cluster, transactions, commit=False)
    except PenstockClientError as error:
        log.warning("%d transactions stay open until their timeout: %s", len(transactions), error)


def _impatient(options: SinkOptions) -> Cluster:
    return replace(options.connect, deadline_s=5.0, request_timeout_s=5.0).cluster()


def _lost(lost: Sequence[Transaction], options: SinkOptions) -> PenstockClientError:
    return PenstockClientError(
        f"{len(lost)} transactions of this batch ended before the driver could commit them (the first is "
        f"{lost[0].transactional_id!r}): transactionTimeout ({options.transaction_timeout_ms} ms) is shorter than the "
        "batch took, or another producer uses the same transactional ids. Restart the query: it writes the missing "
        "rows again."
    )


def _prefix(options: SinkOptions, query: str) -> str:
    return f"{options.id_prefix}.{query}."


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    return [one for one in messages if isinstance(one, Written)]


def _context() -> tuple[int, int, Any]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "tasks run inside Spark"
    return context.partitionId(), context.attemptNumber(), context.getLocalProperty


def _check(options: SinkOptions, schema: StructType) -> None:
    """Check the schema on the driver, before any task runs."""
    for field in schema.fields:
        kind = field.dataType.simpleString()
        if field.name in _IGNORED:
            continue
        if field.name not in _TYPES:
            raise PenstockClientError(
                f"unknown column '{field.name}'.{nearest(field.name, _TYPES)} The columns of a record are "
                f"{', '.join(_TYPES)}; put others into the value, as in select(to_json(struct('*')).alias('value'))"
            )
        if kind not in _TYPES[field.name]:
            raise PenstockClientError(f"column {field.name} is {kind}, but must be {' or '.join(_TYPES[field.name])}")
    if "value" not in schema.fieldNames():
        raise PenstockClientError("the column 'value' is missing")
    if options.topic is None and "topic" not in schema.fieldNames():
        raise PenstockClientError("the topic is missing: set the option topic, or add a column topic")
