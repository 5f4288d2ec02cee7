"""Records to write to the metadata log, encoded and applied to the newest image, a few at a time.

Called by `quorum.py`, which pauses between the parts of a large change. Raises Corruption for records that could not
be replayed.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from penstock.metadata.delta import Builder, Delta
from penstock.metadata.image import Image
from penstock.metadata.records import MetadataRecord, encode
from penstock.model.ids import LeaderEpoch, Offset
from penstock.wire.records import plain_record

RECORDS_PER_SLICE: Final = 300


class MetadataChange:
    def __init__(self, before: Image) -> None:
        self.before = before
        self.records: list[bytes] = []
        """The records as they are written."""
        self._builder = Builder(before)

    def add(self, records: Iterable[MetadataRecord]) -> None:
        for record in records:
            self._builder.replay(record)
            self.records.append(plain_record(None, encode(record), len(self.records)))

    async def add_in_slices(self, records: Sequence[MetadataRecord], check: Callable[[], None]) -> None:
        """Add records while other work runs in between, since thousands take long; then call `check`, which may raise.

        The image that the change began with may no longer be the newest one.
        """
        for start in range(0, len(records), RECORDS_PER_SLICE):
            if start:
                await asyncio.sleep(0)
                check()
            self.add(records[start : start + RECORDS_PER_SLICE])

    def build(self, *, offset: Offset, epoch: LeaderEpoch) -> tuple[Delta, Image]:
        """Return the changes, and the image after them."""
        return self._builder.build(offset=offset, epoch=epoch)


async def prepare(
    head: Callable[[], Image], records: Sequence[MetadataRecord], check: Callable[[], None]
) -> MetadataChange:
    """Return a change of the newest image, made in slices; `check` is called between them, and may raise."""
    change = MetadataChange(head())
    await change.add_in_slices(records, check)
    if head() is not change.before:  # The voters have changed meanwhile.
        change = MetadataChange(head())
        change.add(records)
    return change
