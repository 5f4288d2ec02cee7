"""A worker with retries and a dead-letter topic.

Guarantee: at-least-once. An offset is committed after its record was processed or written to the dead-letter topic
`<topic>.dlq`; a crash before that delivers the record again. If several records are processed concurrently, the
lowest unfinished one holds back the commit.

    python examples/worker_with_dlq.py localhost:9092 orders billing
    penstock dlq show orders          # records that failed, and why
    penstock dlq replay orders --execute
"""

import json
import logging
import sys

from penstock.worker import Counts, Record, Reject, Retry, Worker


def handle(record: Record) -> None:
    """Charge an order. Exceptions are retried; Reject dead-letters the record immediately."""
    try:
        order = json.loads(record.value or b"")
    except ValueError as error:
        raise Reject("the order is not JSON") from error
    if order["amount"] < 0:
        raise ValueError(f"amount {order['amount']} is negative")
    print(f"charged {record.key!r} {order['amount']}", flush=True)


def run(bootstrap: str, topic: str, group_id: str, *, idle_stop_s: float | None = None) -> Counts:
    """Work until a signal, or until the worker has been idle for this long; return the counters."""
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
    if len(sys.argv) != 4:
        sys.exit("usage: python examples/worker_with_dlq.py BOOTSTRAP TOPIC GROUP")
    run(*sys.argv[1:])
