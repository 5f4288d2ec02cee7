"""A live broker that receives mutated frames: it answers or closes the connection, and never breaks.

`make fuzz FRAMES=n` sends more; the seed is printed and can be given again.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from random import Random

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.process import BrokerProcess
from tests.fuzz.frames import TOPIC, mutations, sound_frames
from tests.support.eventually import eventually
from tests.support.ports import answers
from tests.support.process import faults, memory_mb

FRAMES = int(os.environ.get("PENSTOCK_FUZZ_FRAMES", "15000"))
SEED = int(os.environ.get("PENSTOCK_FUZZ_SEED", "1"))
PATIENCE_S = 0.05
MEMORY_MB_MAX = 200
# A valid request follows each mutated one: its response shows that the other was handled.
MARK = 0x7E57AB1E
MARKER = struct.pack(">ihhih", 10, 18, 0, MARK, -1)
ANSWERED = struct.pack(">i", MARK)


class Thrower:
    """One connection at a time, reopened whenever the broker closes it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: socket.socket | None = None
        self.answered = self.closed = self.silent = 0

    def throw(self, frame: bytes) -> None:
        """Send a frame and wait until it is answered or the connection is closed."""
        if self._connection is None:
            self._connection = socket.create_connection(("127.0.0.1", self._port), timeout=60)
            self._connection.settimeout(PATIENCE_S)
        received = b""
        try:
            self._connection.sendall(frame + MARKER)
            while ANSWERED not in received:
                more = self._connection.recv(1 << 16)
                if not more:
                    raise ConnectionResetError
                received = received[-4:] + more
            self.answered += 1
        except TimeoutError:
            # A size larger than the frame, or a fetch that waits: both are allowed.
            self.silent += 1
            self.close()
        except OSError:
            self.closed += 1
            self.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_mutated_frames_never_break_the_broker(tmp_path: Path) -> None:
    random = Random(SEED)
    with BrokerProcess({"auto.create.topics.enable": "false"}, data=tmp_path / "data") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(60)
        stream = mutations(sound_frames(random), random)
        thrower = Thrower(broker.port)
        for count in range(FRAMES):
            thrower.throw(next(stream))
            if count % 1000 == 0:
                eventually(lambda: answers(broker.port), what=f"an answer after {count} frames of seed {SEED}")
        thrower.close()
        assert faults(broker) == []
        assert memory_mb(broker) < MEMORY_MB_MAX
        assert thrower.answered > FRAMES / 4
        assert thrower.silent < FRAMES / 10
        assert broker.stop() == 0
