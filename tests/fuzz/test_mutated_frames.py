"""A live broker under a hail of mutated frames: it answers or closes, and never breaks.

`make fuzz FRAMES=n` throws more; the seed is printed and can be given again.
"""

from __future__ import annotations

import os
import select
import socket
import time
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.frames import TOPIC, mutations, sound_frames
from tests.support.ports import answers
from tests.support.process import BrokerProcess

FRAMES = int(os.environ.get("PENSTOCK_FUZZ_FRAMES", "20000"))
SEED = int(os.environ.get("PENSTOCK_FUZZ_SEED", "1"))
FRAMES_PER_CONNECTION = 20
MEMORY_MB_MAX = 200


def thrown(port: int, frames: list[bytes]) -> int:
    """Send frames on one connection until it is closed; returns how many went out."""
    sent = 0
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.setblocking(False)
        for frame in frames:
            try:
                connection.send(frame)
                sent += 1
                if select.select([connection], [], [], 0)[0] and not connection.recv(1 << 16):
                    break
            except BlockingIOError:
                break
            except OSError:
                break
    return sent


@pytest.mark.timeout(1800)
def test_mutated_frames_never_break_the_broker(tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    random = Random(SEED)
    with BrokerProcess(tmp_path / "data", {"auto.create.topics.enable": "false"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(10)
        stream = mutations(sound_frames(random), random)
        sent = 0
        checked_at = 0
        while sent < FRAMES:
            sent += thrown(broker.port, [next(stream) for _ in range(FRAMES_PER_CONNECTION)])
            if sent - checked_at >= 500:
                checked_at = sent
                began = time.monotonic()
                assert answers(broker.port), f"no answer after {sent} frames of seed {SEED}"
                assert time.monotonic() - began < 1.0
        assert broker.alive
        assert broker.faults() == []
        assert broker.memory_mb() < MEMORY_MB_MAX
        assert broker.stop() == 0
