"""Generator of realistic order events: with keys, duplicates, invalid rows, and late rows.

    python generate.py --bootstrap localhost:9092 --rate 50          # until Ctrl-C
    python generate.py --count 1000 --seed 7                         # the same thousand orders every time

Missing topics are created: orders, customers (compacted) and sales.
"""

from __future__ import annotations

import _thread
import argparse
import json
import random
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

COUNTRIES = ["AT", "BR", "JP", "KE", "NO"]
CUSTOMERS = 50
TOPICS = [
    NewTopic("orders", 2, 1),
    NewTopic("customers", 1, 1, config={"cleanup.policy": "compact"}),
    NewTopic("sales", 1, 1),
]


def customers(chance: random.Random) -> Iterator[tuple[str, str]]:
    for number in range(CUSTOMERS):
        yield f"c{number}", json.dumps({"name": f"Customer {number}", "country": chance.choice(COUNTRIES)})


def orders(chance: random.Random, now: datetime, number: int) -> Iterator[tuple[str, str]]:
    """Yield one order, sometimes twice, sometimes invalid, sometimes late."""
    customer = f"c{chance.randrange(CUSTOMERS + 2)}"  # two customers that are not in the table
    late = timedelta(minutes=5) if chance.random() < 0.02 else timedelta(seconds=chance.random() * 3)
    order = {
        "order_id": f"o{number}",
        "customer_id": customer,
        "amount": round(chance.uniform(5, 500), 2),
        "at": (now - late).isoformat(timespec="milliseconds"),
    }
    luck = chance.random()
    if luck < 0.01:
        yield customer, json.dumps(order)[:-9]  # truncated
        return
    if luck < 0.02:
        order["amount"] = -1.0
    elif luck < 0.03:
        del order["customer_id"]
    yield customer, json.dumps(order)
    if luck > 0.97:
        yield customer, json.dumps(order)


def create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for name, done in admin.create_topics(TOPICS).items():
        try:
            done.result(30)
            print(f"created {name}", file=sys.stderr)
        except KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise


def run(bootstrap: str, *, rate: float, count: int | None, seed: int) -> int:
    """Write customers, then orders; return the number of order records written."""
    create_topics(bootstrap)
    chance = random.Random(seed)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20})
    for key, value in customers(chance):
        producer.produce("customers", key=key, value=value)
    written = number = 0
    # Each run has its own order numbers: a second run adds new orders, not duplicates of the first.
    base = 0 if count is not None else int(time.time() * 1000)
    try:
        while count is None or number < count:
            for key, value in orders(chance, datetime.now(UTC), base + number):
                producer.produce("orders", key=key, value=value)
                written += 1
            number += 1
            producer.poll(0)
            if rate > 0:
                time.sleep(1 / rate)
        producer.flush(30)
    except KeyboardInterrupt:
        # Perhaps the broker was stopped as well: do not wait for it.
        producer.flush(2)
    return written


def interrupt_at_end_of_input() -> None:
    """End the program as Ctrl-C does, when the process that started it is gone."""
    while sys.stdin.buffer.read(4096):
        pass
    _thread.interrupt_main()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default="localhost:9092", metavar="HOST:PORT")
    parser.add_argument("--rate", type=float, default=20.0, help="orders per second; 0: as fast as possible")
    parser.add_argument("--count", type=int, help="stop after this many orders")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stop-at-eof", action="store_true", help="stop when standard input is closed")
    given = parser.parse_args()
    if given.stop_at_eof:
        threading.Thread(target=interrupt_at_end_of_input, daemon=True).start()
    print(f"{run(given.bootstrap, rate=given.rate, count=given.count, seed=given.seed)} records written to orders")


if __name__ == "__main__":
    main()
