"""Names as long as the protocol allows: names that are echoed, joined or put into a message must still fit."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.testing.process import BrokerProcess
from tests.fuzz.frames import TOPIC, sound_frames
from tests.fuzz.test_mutated_frames import Thrower
from tests.support.ports import answers
from tests.support.process import faults

LONGEST = 32_767
PLACEHOLDER = "c" * LONGEST


@pytest.mark.parametrize(
    ("client_id", "text"),
    [
        pytest.param(b"c" * LONGEST, "x" * LONGEST, id="longest names", marks=pytest.mark.slow),
        # Bytes that are not UTF-8 take three times the space after they are replaced.
        pytest.param(b"\xff" * LONGEST, "x" * LONGEST, id="client id that is not UTF-8"),
        pytest.param(b"c" * LONGEST, TOPIC, id="longest client id", marks=pytest.mark.slow),
        # A third of the characters, as many bytes.
        pytest.param(
            b"fuzz", "\N{EURO SIGN}" * (LONGEST // 3), id="longest names of few characters", marks=pytest.mark.slow
        ),
    ],
)
def test_names_of_the_longest_size_never_break_the_broker(tmp_path: Path, client_id: bytes, text: str) -> None:
    with BrokerProcess({"auto.create.topics.enable": "false"}, data=tmp_path / "data") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(60)
        thrower = Thrower(broker.port)
        for frame in sound_frames(Random(7), count=2, client_id=PLACEHOLDER, texts=(text,)):
            frame = frame.replace(struct.pack(">h", LONGEST) + PLACEHOLDER.encode(), _packed(client_id), 1)
            thrower.throw(struct.pack(">i", len(frame)) + frame)
        thrower.close()
        assert answers(broker.port)
        assert faults(broker) == []
        assert thrower.answered > 100


def _packed(client_id: bytes) -> bytes:
    return struct.pack(">h", len(client_id)) + client_id
