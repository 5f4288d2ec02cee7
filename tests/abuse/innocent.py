"""python -m tests.abuse.innocent TARGET: a client that produces with acks=all and reads back what it wrote.

One thread writes and fetches small batches, the other batches of 900 KB, each at a fixed rate and on its own
connection. While a request is slow, the requests that would have been due meanwhile are counted as waiting too
(`waits_of`), so that a node that stops for ten seconds cannot hide that behind one slow request. At the end everything
is read back: each acknowledged batch must be at its offset, with its checksum.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from tests.abuse import records, wire
from tests.abuse.attack import Target
from tests.abuse.child import receive_from_parent, send_to_parent

TOPICS = {"small": "innocent-small", "large": "innocent-large"}
SIZES = {"small": 1_000, "large": 900_000}
INTERVALS_S = {"small": 0.05, "large": 0.5}
PIECE_SIZE, PIECE_PAUSE_S = 64 * 1024, 0.001
PAUSE_AFTER_FAILURE_S = 0.1


@dataclass(slots=True)
class Sample:
    """One request: its start, its duration, and its error."""

    kind: str
    began: float
    took_ms: float
    error: str = ""


@dataclass
class Stream:
    """Writes and reads of one size on one connection."""

    kind: str
    target: Target
    samples: list[Sample] = field(default_factory=list)
    acknowledged: dict[int, int] = field(default_factory=dict)
    """Base offsets and checksums."""
    _client: wire.Client | None = None

    def run(self, stopped: threading.Event) -> None:
        random = Random(self.kind)
        interval = INTERVALS_S[self.kind]
        due = time.monotonic()
        while not stopped.wait(max(0.0, due - time.monotonic())):
            due = max(due, time.monotonic() - interval)
            batch = records.plain(SIZES[self.kind], random)
            offset = self._timed("produce", lambda batch=batch: self._produce(batch))
            if offset is None:
                stopped.wait(PAUSE_AFTER_FAILURE_S)
            else:
                self._timed("fetch", lambda offset=offset: self._fetch(offset))
            due += interval
        self._hang_up()

    def _timed(self, api: str, action: Any) -> Any:
        error, result = "", None
        began = time.monotonic()
        try:
            result = action()
        except (OSError, ValueError) as failure:
            error = f"{type(failure).__name__}: {failure}"
            self._hang_up()
        took_ms = (time.monotonic() - began) * 1000
        self.samples.append(Sample(f"{self.kind} {api}", began, took_ms, error))
        return result

    def _produce(self, batch: bytes) -> int:
        client = self._connected()
        _send_in_pieces(client, wire.produce([(TOPICS[self.kind], 0, batch)]))
        error, offset = wire.produced(client.receive())
        if error != "0 none":
            raise ValueError(f"Produce failed with {error}")
        self.acknowledged[offset] = records.crc_of(batch)
        return offset

    def _fetch(self, offset: int) -> None:
        frame = self._connected().exchange(wire.fetch(TOPICS[self.kind], 0, offset, size_max=1_000_000))
        found = records.split(wire.fetched(frame))
        if not found or found[0] != (offset, self.acknowledged[offset], True):
            raise ValueError(f"offset {offset} has {found[:1]}")

    def connect(self) -> None:
        """Connect, and wait until the node has accepted the connection: only then is it one of its sockets."""
        self._connected().exchange(wire.API_VERSIONS)

    def _connected(self) -> wire.Client:
        if self._client is None:
            self._client = wire.Client(self.target)
        return self._client

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def missing(self) -> list[str]:
        """Return acknowledged batches that are missing, out of order or damaged."""
        left = dict(self.acknowledged)
        offset = 0
        with wire.Client(self.target) as client:
            while left:
                batches = records.split(wire.fetched(client.exchange(wire.fetch(TOPICS[self.kind], 0, offset))))
                if not batches:
                    break
                for base, crc, is_whole in batches:
                    if base != offset or not is_whole or left.pop(base, crc) != crc:
                        return [f"{self.kind}: offset {offset} has batch {base}, checksum {is_whole}"]
                    offset = base + 1
        return [f"{self.kind}: {len(left)} acknowledged batches are missing, first {min(left)}"] if left else []


def waits_of(kind: str, took_ms: float) -> Iterator[float]:
    """Return the duration of a request, and those of the requests that would have been due before it ended."""
    interval_ms = INTERVALS_S[kind] * 1000
    while took_ms > 0:
        yield took_ms
        took_ms -= interval_ms


def _send_in_pieces(client: wire.Client, frame: bytes) -> None:
    """Send a frame as a network would: a large one does not arrive in one read."""
    for start in range(0, len(frame), PIECE_SIZE):
        if start:
            time.sleep(PIECE_PAUSE_S)
        client.socket.sendall(memoryview(frame)[start : start + PIECE_SIZE])


def main() -> None:
    target = Target(**json.loads(sys.argv[1]))
    wire.create_topics(target, TOPICS.values())
    streams = [Stream(kind, target) for kind in TOPICS]
    for stream in streams:
        stream.connect()
    stopped = threading.Event()
    threads = [threading.Thread(target=stream.run, args=(stopped,)) for stream in streams]
    for thread in threads:
        thread.start()
    send_to_parent("running")
    receive_from_parent()
    stopped.set()
    for thread in threads:
        thread.join()
    try:
        missing = [each for stream in streams for each in stream.missing()]
    except (OSError, ValueError) as error:
        missing = [f"cannot read back: {type(error).__name__}: {error}"]
    samples = [asdict(sample) for stream in streams for sample in stream.samples]
    send_to_parent(
        {"samples": samples, "missing": missing, "acknowledged": sum(len(each.acknowledged) for each in streams)}
    )


if __name__ == "__main__":
    main()
