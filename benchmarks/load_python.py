"""The load generator in Python, for machines without a C compiler. It has the arguments and output of `load.c`.

A Python client reaches about half a million records per second: enough for a check, not for comparing brokers.
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

CHUNK = 10_000


def produce(library: str, bootstrap: str, topic: str, count: str, size: str, *settings: str) -> dict[str, Any]:
    producer = Producer({"bootstrap.servers": bootstrap, **_settings(settings)})
    text = (b"flow gate wheel river pressure turbine 0.173 open closed valve " * 200)[: int(size) + 4096]
    producer.produce(topic, text[: int(size)], partition=0)
    producer.flush(15)
    started = time.monotonic()
    for number in range(int(count)):
        while True:
            try:
                producer.produce(topic, text[number % 4096 : number % 4096 + int(size)], partition=0)
                break
            except BufferError:
                producer.poll(0.005)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    return _throughput(int(count), int(count) * int(size), left, time.monotonic() - started)


def consume(library: str, bootstrap: str, topic: str, count: str, *settings: str) -> dict[str, Any]:
    consumer = Consumer({"bootstrap.servers": bootstrap, **_settings(settings)})
    consumer.assign([TopicPartition(topic, 0, 0)])
    got = first = size = 0
    started = 0.0
    deadline = time.monotonic() + 60
    while got < int(count) and time.monotonic() < deadline:
        messages = consumer.consume(CHUNK // 10, timeout=1)
        got += len(messages)
        size += sum(len(one.value() or b"") for one in messages)
        if messages and not started:  # the clock starts with the first records, which are not counted
            started, first, size = time.monotonic(), got, 0
    return _throughput(got - first, size, max(0, int(count) - got), time.monotonic() - started)


def latency(
    library: str, bootstrap: str, topic: str, count: str, size: str, rate: str, *settings: str
) -> dict[str, Any]:
    producer = Producer({"bootstrap.servers": bootstrap, **_settings(settings)})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "load", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    times: list[float] = []
    sent = 0
    started = time.monotonic() + 0.5
    deadline = started + int(count) / float(rate) + 15
    while len(times) < int(count) and time.monotonic() < deadline:
        due = min(int(count), int((time.monotonic() - started) * float(rate)))
        for _ in range(sent, due):
            producer.produce(topic, str(time.monotonic()).encode().ljust(int(size)), partition=0)
        sent = max(sent, due)
        producer.poll(0)
        got = [one for one in consumer.consume(CHUNK, timeout=0.0005) if one.error() is None]
        at = time.monotonic()
        times += [at - float(one.value() or b"0") for one in got]
    return {"records": len(times), "failed": int(count) - len(times), **_percentiles(times[len(times) // 10 :])}


def requests(host: str, port: str, file: str, connections: str, depth: str, count: str) -> dict[str, Any]:
    frames = _frames(file)
    each = int(count) // int(connections)
    ready = selectors.DefaultSelector()
    flows = [
        _Flow(socket.create_connection((host, int(port))), frames[index % len(frames)], each)
        for index in range(int(connections))
    ]
    for flow in flows:
        ready.register(flow.socket, selectors.EVENT_READ, flow)
    started = time.monotonic()
    for flow in flows:
        flow.fill(int(depth))
    while any(flow.answered < each for flow in flows):
        for key, _ in ready.select(10):
            key.data.read()
            key.data.fill(int(depth))
    seconds = time.monotonic() - started
    times = [one for flow in flows for one in flow.times]
    done = each * len(flows)
    return {
        "requests": done,
        "sent_bytes": sum(flow.frame_size for flow in flows) * each,
        "answer_bytes": sum(flow.bytes for flow in flows),
        "failed": 0,
        "seconds": seconds,
        **_percentiles(times),
    }


def paced(host: str, port: str, file: str, period: str, seconds: str, error_at: str) -> dict[str, Any]:
    frames = _frames(file)
    ready = selectors.DefaultSelector()
    flows = [_Flow(socket.create_connection((host, int(port))), frame, 1 << 62) for frame in frames]
    for flow in flows:
        ready.register(flow.socket, selectors.EVENT_READ, flow)
    print("ready", flush=True)
    sys.stdin.readline()  # the caller reads the CPU clocks now
    started = time.monotonic()
    sent, all_due = 0, int(float(seconds) / float(period) * len(frames))
    while sent < all_due or any(flow.is_waiting for flow in flows):
        now = time.monotonic() - started
        if now > float(seconds) + 5:
            break
        for _ in range(sent, min(all_due, int(now / float(period) * len(frames)))):
            flows[sent % len(flows)].fill(1)
            sent += 1
        for key, _ in ready.select(0.001):
            key.data.read()
    answered = sum(flow.answered for flow in flows)
    times = [one for flow in flows for one in flow.times]
    wrong = sum(flow.wrong(int(error_at)) for flow in flows)
    return {
        "requests": answered,
        "failed": wrong + all_due - answered,
        "seconds": time.monotonic() - started,
        **_percentiles(times),
    }


def _frames(file: str) -> list[bytes]:
    """Return the frames of a file, one after another; each has its own size."""
    data, frames = Path(file).read_bytes(), []
    while data:
        size = 4 + int.from_bytes(data[:4], "big")
        frames.append(data[:size])
        data = data[size:]
    return frames


class _Flow:
    """One connection with several requests in flight."""

    def __init__(self, one: socket.socket, frame: bytes, count: int) -> None:
        self.socket, self._frame, self._count = one, frame, count
        self.frame_size = len(frame)
        self._started: list[float] = []
        self._sent = self.answered = self.bytes = 0
        self._data = bytearray()
        self._last = b""
        self.times: list[float] = []

    def fill(self, depth: int) -> None:
        while self._sent < self._count and self._sent - self.answered < depth:
            self._started.append(time.monotonic())
            self._sent += 1
            self.socket.sendall(self._frame)

    @property
    def is_waiting(self) -> bool:
        return self.answered < self._sent

    def wrong(self, error_at: int) -> bool:
        """Return whether the last response has an error."""
        return self.answered > 0 and self._last[error_at : error_at + 2] != bytes(2)

    def read(self) -> None:
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the broker closed the connection")
        self.bytes += len(data)
        self._data += data
        while len(self._data) >= 4 and len(self._data) >= 4 + (size := int.from_bytes(self._data[:4], "big")):
            self._last = bytes(self._data[4 : 4 + size])
            del self._data[: 4 + size]
            self.times.append(time.monotonic() - self._started[self.answered])
            self.answered += 1


def _settings(pairs: tuple[str, ...]) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in pairs)


def _throughput(records: int, size: int, failed: int, seconds: float) -> dict[str, Any]:
    return {"records": records, "bytes": size, "failed": failed, "seconds": seconds}


def _percentiles(times: list[float]) -> dict[str, float | None]:
    ordered = sorted(times)
    if not ordered:
        return {"p50_us": None, "p99_us": None, "p999_us": None, "max_us": None}
    at = {
        "p50_us": len(ordered) // 2,
        "p99_us": int(len(ordered) * 0.99),
        "p999_us": int(len(ordered) * 0.999),
        "max_us": len(ordered) - 1,
    }
    return {name: ordered[index] * 1e6 for name, index in at.items()}


LOADS: dict[str, Callable[..., dict[str, Any]]] = {
    "produce": produce,
    "consume": consume,
    "latency": latency,
    "requests": requests,
    "paced": paced,
}

if __name__ == "__main__":
    result = LOADS[sys.argv[1]](*sys.argv[2:])
    print(json.dumps(result))
    sys.exit(2 if result["failed"] else 0)
