"""A worker with retries and a dead-letter topic, in the few lines that are one's own.

Guarantee: at-least-once. An offset is committed after its record was handled or is safely in the
dead-letter topic `<topic>.dlq`; a crash before that delivers the record again. With several
records at a time the lowest unfinished one holds the commit back.

    python examples/worker_with_dlq.py localhost:9092 orders billing
    penstock dlq show orders          # what could not be handled, and why
    penstock dlq replay orders --execute
"""

import json
import logging
import sys

from penstock.worker import Counts, Record, Reject, Retry, Worker


def handle(record: Record) -> None:
    """Charge an order. Any exception is tried again; Reject goes to the dead letters at once."""
    try:
        order = json.loads(record.value or b"")
    except ValueError as error:
        raise Reject("the order is not JSON") from error
    if order["amount"] < 0:
        raise ValueError(f"amount {order['amount']} is negative")
    print(f"charged {record.key!r} {order['amount']}", flush=True)


def run(bootstrap: str, topic: str, group_id: str, *, idle_stop_s: float | None = None) -> Counts:
    """Work until a signal, or until nothing came for so long; return what was done."""
    worker = Worker(
        handle,
        topics=[topic],
        group=group_id,
        bootstrap=bootstrap,
        concurrency=4,
        order="key",
        retry=Retry(attempts=3, delay_s=0.1),
    )
    return worker.run(idle_stop_s=idle_stop_s)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    run(*sys.argv[1:4])
