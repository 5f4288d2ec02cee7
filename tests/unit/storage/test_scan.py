import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.ports.disk import File
from penstock.storage import scan
from penstock.storage.scan import BadBatch, find_valid_batch, scan_batches
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import batch


def file_of(*parts: bytes) -> File:
    file = SimDisk().open("/a.log", create=True)
    file.write(parts, 0)
    return file


def positions(file: File, *, check_crc: bool = True, position: int = 0) -> list[int]:
    return [at for at, _ in scan_batches(file, position, file.size(), offset=0, base_offset=0, check_crc=check_crc)]


@settings(max_examples=30)
@given(st.lists(st.integers(0, 300), max_size=12), st.integers(61, 500), st.booleans())
def test_a_scan_finds_every_batch_with_any_block_size(sizes: list[int], block_size: int, check_crc: bool) -> None:
    parts = [batch(value=b"v" * size, base_offset=offset) for offset, size in enumerate(sizes)]
    expected = [sum(len(part) for part in parts[:count]) for count in range(len(parts))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "BLOCK_SIZE", block_size)
        patch.setattr(scan, "WINDOW_SIZE", block_size)
        assert positions(file_of(*parts), check_crc=check_crc) == expected


def test_a_scan_stops_at_the_first_invalid_bytes() -> None:
    first, second = batch(value=b"one"), bytearray(batch(value=b"two", base_offset=1))
    second[-1] ^= 1
    with pytest.raises(BadBatch, match="checksum") as bad:
        positions(file_of(first, bytes(second)))
    assert bad.value.position == len(first)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (batch()[:40], "less than a batch header"),
        (batch()[:-1], "but only"),
        (bytes(100), "magic"),
        (batch(base_offset=1 << 31), "out of range"),
        (batch() + batch(), "below the expected"),
        (batch(base_offset=5) + batch(base_offset=5), "overlaps"),
    ],
)
def test_a_scan_reports_the_error(content: bytes, why: str) -> None:
    with pytest.raises(BadBatch, match=why):
        positions(file_of(content))


def test_a_batch_after_damage_is_found_at_any_position() -> None:
    good = batch(3, base_offset=9)
    for filler in (b"\x02" * 50, bytes(513), b"garbage"):
        file = file_of(filler, good, b"\x02tail")
        found = find_valid_batch(file, 0, file.size(), offset=5, base_offset=0)
        assert found == len(filler)


def test_a_batch_with_a_lower_offset_is_not_found_after_damage() -> None:
    file = file_of(b"damage", batch(base_offset=3))
    assert find_valid_batch(file, 0, file.size(), offset=5, base_offset=0) is None


def test_a_batch_on_the_border_of_two_blocks_is_found() -> None:
    good = batch(base_offset=9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "BLOCK_SIZE", 128)
        for size in range(60, 200):
            file = file_of(b"\xff" * size, good)
            assert find_valid_batch(file, 0, file.size(), offset=0, base_offset=0) == size
