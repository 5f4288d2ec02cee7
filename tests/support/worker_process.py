"""A worker in a separate process, to be killed: writes a line for every record it has handled.

    python tests/support/worker_process.py BOOTSTRAP TOPIC GROUP LEDGER DELIVERY [CLIENT=VALUE...]

A value that ends in 7 always fails. A line is in the file when `handle` returns.
"""

import os
import sys
import time

from penstock.worker import Record, Retry, Worker


def main(bootstrap: str, topic: str, group: str, ledger: str, delivery: str, *settings: str) -> None:
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def handle(record: Record) -> None:
        number = int(record.value or b"0")
        # Varying delays, so that records finish out of order.
        time.sleep(0.001 * (number % 5))
        if number % 10 == 7:
            raise ValueError(f"{number} ends in 7")
        os.write(file, f"{os.getpid()} {record.partition} {record.offset}\n".encode())

    worker = Worker(
        handle,
        topics=[topic],
        group=group,
        bootstrap=bootstrap,
        delivery=delivery,
        order="key",
        concurrency=4,
        in_flight_max=50,
        retry=Retry(attempts=2, delay_s=0.005),
        commit_every_s=0.05,
        consumer=dict(pair.split("=", 1) for pair in settings),
    )
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
