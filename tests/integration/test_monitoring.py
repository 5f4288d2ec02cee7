"""Tests of the metrics endpoint of a live broker: its contents, and misbehaving clients."""

import http.client
import socket
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from penstock.metrics.declared import DECLARED
from penstock.ports.real import http as real_http
from penstock.testing import Broker
from tests.support.command import penstock_process
from tests.support.eventually import eventually


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"metrics.listener": "http://127.0.0.1:0"}) as running:
        yield running


def port_of(broker: Broker) -> int:
    port = broker.node.metrics_port
    assert port is not None
    return port


def get(broker: Broker, path: str, method: str = "GET") -> tuple[int, str]:
    line = http.client.HTTPConnection("127.0.0.1", port_of(broker), timeout=60)
    line.request(method, path)
    answer = line.getresponse()
    return answer.status, answer.read().decode()


def scrape(broker: Broker) -> dict[tuple[str, tuple[str, ...]], float]:
    status, text = get(broker, "/metrics")
    assert status == 200
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_client_activity_is_visible(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    for _ in range(10):
        producer.produce("orders", b"x" * 100, partition=0)
        producer.flush(60)
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers", "enable.auto.commit": False})
    reader.assign([TopicPartition("orders", 0, 0)])
    assert len(reader.consume(10, timeout=60)) == 10
    reader.commit(offsets=[TopicPartition("orders", 0, 4)], asynchronous=False)
    reader.close()
    sharer = ShareConsumer({"bootstrap.servers": broker.bootstrap, "group.id": "sharers"})
    sharer.subscribe(["orders"])
    in_flight = ("kafka_server_sharepartitionmetrics_inflightmessagecount", ("sharers", "orders", "0"))
    eventually(lambda: (sharer.poll(0.2), in_flight in scrape(broker))[1])
    found = scrape(broker)
    sharer.close()
    assert found["kafka_server_brokertopicmetrics_messagesin_total", ("orders",)] == 10
    assert found["kafka_server_brokertopicmetrics_bytesin_total", ("orders",)] > 1000
    assert found["kafka_server_brokertopicmetrics_bytesout_total", ("orders",)] > 1000
    assert found["kafka_log_log_size", ("orders",)] > 1000
    assert found["penstock_partition_messages_in_total", ("orders", "0")] == 10
    written = found["kafka_server_brokertopicmetrics_bytesin_total", ("orders",)]
    assert found["penstock_partition_bytes_in_total", ("orders", "0")] == written
    assert found["kafka_consumergroup_lag", ("readers", "orders", "0")] == 6
    assert found["kafka_topic_partition_current_offset", ("orders", "0")] == 10
    assert found["kafka_network_requestmetrics_requests_total", ("Produce",)] == 10
    assert found["kafka_network_requestmetrics_totaltimems_count", ("Produce",)] == 10
    assert found["kafka_log_logflushstats_logflushrateandtimems_count", ()] >= 10
    assert found["kafka_controller_kafkacontroller_activecontrollercount", ()] == 1
    assert found["kafka_server_replicamanager_underreplicatedpartitions", ()] == 0
    assert found["kafka_server_replicamanager_leadercount", ()] > 1
    names = {name for name, _ in found}
    missing = [one.name for one in DECLARED.values() if not names.intersection(one.series())]
    assert not missing


def test_health_and_readiness(broker: Broker) -> None:
    assert get(broker, "/health") == get(broker, "/ready") == (200, '{"status": "ok"}\n')
    assert get(broker, "/metrics", "HEAD") == (200, "")
    assert get(broker, "/nothing")[0] == 404
    assert get(broker, "/metrics", "POST")[0] == 405


@pytest.mark.parametrize(
    "sent", [b"\x00\xff" * 100 + b"\r\n\r\n", b"GET\r\n\r\n", b"x" * 100_000, b"GET /\xff HTTP/1.1\r\n\r\n", b""]
)
def test_garbage_is_answered_or_disconnected_and_others_are_served(broker: Broker, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port_of(broker)), timeout=60) as line:
        line.sendall(sent)
        line.shutdown(socket.SHUT_WR)
        try:
            answer = line.recv(1000)
        except ConnectionResetError:
            answer = b""
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 404"))
    assert get(broker, "/health")[0] == 200


def test_silent_clients_are_disconnected(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(real_http, "HEAD_S_MAX", 0.3)
    lines = [socket.create_connection(("127.0.0.1", port_of(broker)), timeout=60) for _ in range(40)]
    assert [line.recv(10) for line in lines] == [b""] * len(lines)
    for line in lines:
        line.close()
    assert get(broker, "/ready")[0] == 200


def test_the_log_can_be_json_and_a_bad_address_is_reported(tmp_path: object) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ("start", "--data", f"{tmp_path}/data", "--port", "0", "--metrics", port, "--log-format", "json")
        outcome = penstock_process(*words)
    assert outcome.code == 1 and f"Port {port} is in use" in outcome.err
    refused = penstock_process("start", "--data", f"{tmp_path}/data", "--set", "metrics.listener=here:1")
    assert refused.code == 1 and "http://host:port" in refused.err
