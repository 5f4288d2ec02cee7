"""Measures how long producers wait when a leader is killed: from kill -9 to the next acknowledged write.

python -m tests.chaos.failover --kills 30: librdkafka with default settings, no proxies, three nodes. librdkafka
doubles its reconnect backoff with every connection, up to ten seconds, and resets it only ten seconds after the last
one: kills that follow each other faster would measure that backoff.
"""

import argparse
import statistics
import time

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.penstock_cluster import PenstockCluster
from tests.support.topic_metadata import cluster_metadata

TOPIC = "failover"
QUIET_S = 11.0
PAUSE_S = 0.005
PATIENCE_S = 60.0


def measure(kills: int) -> list[float]:
    """Return the seconds of each kill, in order."""
    with PenstockCluster() as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 3)])[TOPIC].result(timeout=30)
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "log_level": 0,
                "error_cb": lambda _: None,
            }
        )
        waits = []
        for _ in range(kills):
            _write_for(producer, QUIET_S)
            leader = cluster_metadata(admin, TOPIC).topics[TOPIC].partitions[0].leader
            cluster.kill(leader)
            waits.append(_next_acknowledgement(producer))
            print(f"{len(waits)} of {kills}: {waits[-1]:.2f} s", flush=True)
            cluster.restart(leader)
            _wait_in_sync(admin)
        producer.flush(30)
        return waits


def _write_for(producer: Producer, length_s: float) -> None:
    until = time.monotonic() + length_s
    while time.monotonic() < until:
        producer.produce(TOPIC, value=b"x" * 100, partition=0)
        producer.poll(0)
        time.sleep(PAUSE_S)
    assert producer.flush(PATIENCE_S) == 0


def _next_acknowledgement(producer: Producer) -> float:
    """Return the seconds until a record that is sent now is acknowledged."""
    began = time.monotonic()
    ended: list[float] = []

    def done(error: KafkaError | None, message: Message) -> None:
        if error is None and not ended:
            ended.append(time.monotonic())

    while not ended and time.monotonic() < began + PATIENCE_S:
        producer.produce(TOPIC, value=b"y" * 100, partition=0, on_delivery=done)
        producer.poll(PAUSE_S)
    assert ended, f"no write was acknowledged within {PATIENCE_S:.0f} s"
    return ended[0] - began


def _wait_in_sync(admin: AdminClient) -> None:
    until = time.monotonic() + PATIENCE_S
    while len(cluster_metadata(admin, TOPIC).topics[TOPIC].partitions[0].isrs) < 3:
        assert time.monotonic() < until, "the killed node did not rejoin the ISR"
        time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=30)
    kills = parser.parse_args().kills
    waits = sorted(measure(kills))
    worst = waits[min(len(waits) - 1, round(0.99 * len(waits)))]
    print(f"{kills} kills: p50 {statistics.median(waits):.2f} s, p99 {worst:.2f} s, worst {waits[-1]:.2f} s")
    print("all: " + " ".join(f"{wait:.2f}" for wait in waits))


if __name__ == "__main__":
    main()
