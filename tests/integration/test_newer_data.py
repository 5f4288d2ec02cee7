"""A data folder of a newer release: a node refuses to start rather than skip metadata that it does not know."""

import struct
import subprocess
import sys
from pathlib import Path

from penstock.testing import BrokerProcess
from penstock.wire.records import Record, encode_batch

FRAME_VERSION, UNKNOWN_TYPE, TYPE_VERSION = 1, 99, 0


def append_record(log: Path, value: bytes) -> None:
    """Append a batch with one record to a segment of the metadata log, in the epoch of its last batch."""
    content, position, end, epoch = log.read_bytes(), 0, 0, 0
    while position < len(content):
        base, size, epoch = struct.unpack_from(">qii", content, position)
        (last_delta,) = struct.unpack_from(">i", content, position + 23)
        end, position = base + last_delta + 1, position + 12 + size
    with log.open("ab") as file:
        file.write(encode_batch([Record(timestamp=1, value=value)], base_offset=end, leader_epoch=epoch))


def test_a_node_names_the_metadata_record_that_it_does_not_know(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with BrokerProcess(data=data):
        pass
    (log,) = (data / "__cluster_metadata-0").glob("*.log")
    append_record(log, bytes([FRAME_VERSION, UNKNOWN_TYPE, TYPE_VERSION]))
    before = log.read_bytes()
    command = [sys.executable, "-m", "penstock.cli.main", "start", "--data", str(data), "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (1, "")
    assert "metadata record type 99 version 0 is not supported by this release" in done.stderr
    # The only voter begins its epoch with a record of its own. It removes nothing.
    assert log.read_bytes().startswith(before)
