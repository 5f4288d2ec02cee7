"""Malformed frames: wrong sizes, random bytes, unknown APIs, counts larger than the data."""

from __future__ import annotations

import contextlib
import struct
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from random import Random

from tests.abuse import wire
from tests.abuse.attack import Attack, Bounds, Counts, Gate, Target
from tests.abuse.parallel import in_threads
from tests.fuzz.frames import mutations, sound_frames

FAMILY = "frames"
FRAME_SIZE_MAX = 16_000_000
FLEXIBLE_METADATA = struct.pack(">hhih", 3, 12, 1, -1)


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def wrong_sizes() -> Iterator[bytes]:
    for size in (0, -1, -(2**31), 2**31 - 1, 101 * 1024 * 1024, 1, 2, 3, 7):
        yield struct.pack(">i", size) + b"\0" * max(0, min(size, 64))
    yield b"GET / HTTP/1.1\r\n\r\n"
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + bytes(512)


def unknown_apis(random: Random) -> Iterator[bytes]:
    for api in (-1, 4, 5, 6, 7, 51, 71, 72, 76, 99, 1000, 32767, -32768):
        for version in (-1, 0, 1, 99, 32767):
            yield wire.framed(struct.pack(">hhih", api, version, 1, -1) + random.randbytes(40))
    for api in range(83):
        yield wire.framed(struct.pack(">hhih", api, 99, 1, -1) + random.randbytes(40))


def lying_counts() -> Iterator[bytes]:
    """Yield arrays, strings and tagged fields that claim far more than the frame contains."""
    for count in (2**31 - 1, -2, 100_000_000, 1_000_000):
        for api, version in ((3, 5), (19, 4), (2, 5), (1, 11), (0, 7), (15, 4), (9, 5), (11, 4), (24, 2), (44, 0)):
            yield wire.framed(struct.pack(">hhih", api, version, 1, -1) + struct.pack(">i", count) * 8)
    for count in (2**32 - 1, 2**28, 1_000_000):
        # In the header's tagged fields, and in the array of topics after them.
        yield wire.framed(FLEXIBLE_METADATA + _uvarint(count) + bytes(64))
        yield wire.framed(FLEXIBLE_METADATA + b"\0" + _uvarint(count) + bytes(64))


def many_elements(size: int = FRAME_SIZE_MAX) -> Iterator[bytes]:
    """Yield correct counts: as many elements as fit into the largest request."""
    # Tagged fields with ascending tags, each of one byte, in the header.
    tags = b"".join(_uvarint(tag) + b"\1\0" for tag in range(size // 16))
    yield wire.framed(FLEXIBLE_METADATA + _uvarint(size // 16) + tags + b"\1\0\0\0")
    # Empty names: two bytes for each topic of a Metadata request.
    count = size // 2
    yield wire.framed(struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", count) + bytes(2 * count))
    # Empty arrays in an array: ListOffsets for topics without partitions.
    count = size // 6
    yield wire.framed(struct.pack(">hhih", 2, 1, 1, -1) + struct.pack(">ii", -1, count) + bytes(6 * count))


def _send(frames: Iterator[bytes], target: Target, gate: Gate, counts: Counter[str]) -> None:
    """Send each frame on a connection that is reused if the node responds."""
    client: wire.Client | None = None
    for frame in frames:
        if gate.is_over():
            break
        try:
            client = client or wire.Client(target, timeout_s=0.2 if len(frame) < 100_000 else 10.0)
            client.exchange(frame)
            counts["answered"] += 1
        except (OSError, struct.error) as error:
            counts["silent" if isinstance(error, TimeoutError) else "closed"] += 1
            if client is not None:
                client.close()
            client = None
    if client is not None:
        client.close()


def _wrong(target: Target, gate: Gate) -> Counts:
    random = Random(target.seed)
    sound = sound_frames(random)
    stream = mutations(sound, random)
    fixed = [*wrong_sizes(), *unknown_apis(random), *lying_counts()]

    def work(_: int, counts: Counter[str]) -> None:
        _send(iter(fixed), target, gate, counts)
        while not gate.is_over():
            noise = [random.randbytes(random.randint(1, 300)) for _ in range(20)]
            _send(iter([*map(wire.framed, noise), *islice(stream, 200)]), target, gate, counts)

    return in_threads(1, work, gate)


def _truncated(target: Target, gate: Gate) -> Counts:
    random = Random(target.seed)
    sound = sound_frames(random)

    def work(_: int, counts: Counter[str]) -> None:
        while not gate.is_over():
            frame = wire.framed(random.choice(sound))
            with contextlib.suppress(OSError), wire.connect(target, timeout_s=5) as connection:
                connection.sendall(frame[: random.randint(1, len(frame) - 1)])
                counts["cut"] += 1
            time.sleep(0.001)

    return in_threads(2, work, gate)


def _elements(target: Target, gate: Gate) -> Counts:
    frames = list(many_elements(target.of(FRAME_SIZE_MAX)))

    def work(_: int, counts: Counter[str]) -> None:
        while not gate.is_over():
            _send(iter(frames), target, gate, counts)

    return in_threads(1, work, gate)


ATTACKS = (
    Attack(
        # Some frames are valid enough to create the topic of committed offsets.
        name="wrong-frames", family=FAMILY, run=_wrong, bounds=Bounds(files_kept=150),
        what="sizes that lie, random bytes, unknown APIs and versions, lying counts, mutations of every API",
    ),
    Attack(
        name="cut-frames", family=FAMILY, run=_truncated,
        what="2 clients close in the middle of a request, as fast as they can",
    ),
    Attack(
        name="many-elements", family=FAMILY, run=_elements,
        what="requests of 16 MB with millions of empty elements, and a million tagged fields",
    ),
)  # fmt: skip
