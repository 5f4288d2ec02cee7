"""A consumer framework on confluent-kafka: a handler per record, retries, dead letters, commits after the work.

    from penstock.worker import Record, Worker

    def handle(record: Record) -> None:
        ...

    Worker(handle, topics=["orders"], group="billing", bootstrap="localhost:9092").run()

Works with any Kafka cluster and does not depend on the broker. See docs/guides/consuming.md.
"""

from penstock.worker.engine import Counts
from penstock.worker.letter_writer import DeadLetterFailed
from penstock.worker.options import DeadLetters, Delivery, Order, Reject, Retry
from penstock.worker.record import Record
from penstock.worker.worker import Worker, WorkerFailed

__all__ = [
    "Counts",
    "DeadLetterFailed",
    "DeadLetters",
    "Delivery",
    "Order",
    "Record",
    "Reject",
    "Retry",
    "Worker",
    "WorkerFailed",
]
