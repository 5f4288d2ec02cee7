"""A worker over confluent-kafka: a function per record, retries, dead letters, commits after the work.

    from penstock.worker import Record, Worker

    def handle(record: Record) -> None:
        ...

    Worker(handle, topics=["orders"], group="billing", bootstrap="localhost:9092").run()

Works with any Kafka cluster and uses nothing of the broker. docs/guides/consuming.md says more.
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
