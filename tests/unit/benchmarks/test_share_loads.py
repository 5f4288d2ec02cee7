"""Tests of the frames for the load generator of share groups."""

import uuid

from benchmarks.share_loads import EPOCH_MARK, OFFSET_MARK, share_frames

EPOCH = EPOCH_MARK.to_bytes(4, "big")
RANGE = OFFSET_MARK.to_bytes(8, "big") * 2


def test_the_load_generator_finds_the_epoch_and_the_range_once_and_at_the_same_place_for_every_member() -> None:
    members = [share_frames("jobs", str(uuid.uuid4()), str(uuid.UUID(int=7))) for _ in range(2)]
    for first, accepting, plain in members:
        assert (first.count(EPOCH), first.count(RANGE)) == (0, 0)
        assert (accepting.count(EPOCH), accepting.count(RANGE)) == (1, 1)
        assert (plain.count(EPOCH), plain.count(RANGE)) == (1, 0)
        assert plain.index(EPOCH) == accepting.index(EPOCH)
    assert len({accepting.index(RANGE) for _, accepting, _ in members}) == 1
    assert len({accepting.index(EPOCH) for _, accepting, _ in members}) == 1
