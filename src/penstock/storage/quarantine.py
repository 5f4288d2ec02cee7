"""What is damaged in a log, and what is refused because of it.

`Quarantine` owns `damage` and `damaged_from`: reads stop before the damage and appends are refused, nothing is cut.
A mark in the partition's folder makes every later start look again (damage.py). Log.py asks it before it writes and
has it turn what a disk refuses into errors for clients. Refuses: StorageError.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeVar

from penstock.model.errors import StorageError
from penstock.model.job import Job
from penstock.storage import damage
from penstock.storage.scan import BadBatch
from penstock.storage.segment import Damaged, Segment

if TYPE_CHECKING:
    from penstock.storage.log import Log
    from penstock.storage.recovery import Recovered

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Quarantine:
    """The damage of one log, if it has any."""

    __slots__ = ("_log", "_may_use_reserve", "damage", "damaged_from", "is_provisional")

    def __init__(self, log: Log, state: Recovered) -> None:
        self._log = log
        self.damage = state.damage
        """What is damaged, for people; no records are taken then."""
        self.damaged_from = state.damaged_from
        """The first offset that is not served."""
        self.is_provisional = state.is_provisional
        """Whether its files could not all be read when it was opened, so that it is damaged until they can be."""
        self._may_use_reserve = False

    # Entering and leaving

    def begin(self, offset: int, why: str, *, is_final: bool = True) -> None:
        """Serve nothing from an offset on, and take no records: something there is missing or cannot be read."""
        if self.damaged_from is None or offset < self.damaged_from:
            self.damaged_from = offset
            self.damage = why
            log = self._log
            logger.error("%s is quarantined from offset %d on: %s", log.topic_partition, offset, why)
            if is_final:
                damage.save_quarantine(log.directory.disk, log.folder, offset, why)

    def lift(self) -> None:
        """Serve everything and take records again: what could not be read can be read."""
        log = self._log
        logger.info("%s can be read again; its quarantine is lifted", log.topic_partition)
        self.damage = self.damaged_from = None
        with suppress(OSError):
            damage.lift_quarantine(log.directory.disk, log.folder)

    def refuse_appends(self, why: str) -> None:
        """Take no records any more, and serve what is there."""
        self.damage = why

    def use_reserve(self) -> None:
        """Let appends use the reserved space of a full disk: those to the metadata log."""
        self._may_use_reserve = True

    # Refusing

    def check_append(self) -> None:
        """Refuse to append to a damaged log or in a folder that takes no writes, unless there is a reserve for it."""
        if self.damage is not None or self._log.directory.failure is not None or not self._may_use_reserve:
            self.refuse()

    def refuse(self) -> NoReturn:
        directory = self._log.directory
        state = "read-only" if directory.is_read_only else "offline"
        raise StorageError(self.damage or f"{directory.path} is {state}: {directory.refusal}")

    def refuse_damage(self, segment: Segment, bad: BadBatch) -> NoReturn:
        """Quarantine the log from the damage on: nothing is cut, nothing behind it is served.

        While it is not known where the damage of a large segment begins, nothing of that segment is served.
        """
        log = self._log
        segments = log.segments
        below = segments.end_of(segments.slot_of(segment.base_offset), log.end_offset)
        job = damage.locate(segment, bad, below=below)
        try:
            next(job)
        except StopIteration as end:
            bad, offset = end.value
            self.begin(offset, damage.describe(segment, bad, offset))
        else:
            if self.damaged_from is None or segment.base_offset < self.damaged_from:
                why = f"{segment.path} is damaged at position {bad.position}: {bad.why}; its beginning is being located"
                self.begin(segment.base_offset, why, is_final=False)
                log.directory.run(job, partial(self._located, segment, self.damage))
        self.refuse()

    def _located(
        self, segment: Segment, said: str | None, found: tuple[BadBatch, int] | None, error: BaseException | None
    ) -> None:
        """Quarantine no more than what is damaged, unless something else has been met meanwhile."""
        if found is None or self.damage != said or segment not in self._log.segments:
            return
        bad, offset = found
        self.damage = self.damaged_from = None
        self.begin(offset, damage.describe(segment, bad, offset))

    def refuse_gap(self, segment: Segment, offset: int, next_offset: int) -> NoReturn:
        """Quarantine the log from an offset on that no batch holds: even compaction keeps the end of every segment."""
        self.begin(offset, f"{segment.path} ends before offset {offset}, and {next_offset} must follow it")
        self.refuse()

    # Work with the files

    def guard(self, work: Callable[[], _T]) -> _T:
        """Do something with the files; what the disk refuses or the bytes belie is StorageError."""
        try:
            return work()
        except Damaged as found:
            self.refuse_damage(found.segment, found.bad)
        except OSError as error:
            raise StorageError(f"{self._log.folder}: {error}") from error

    def guard_job(self, start: Callable[[], Job[_T]]) -> Job[_T]:
        """Like `guard`, for what is read in slices: the log may be cut, cleaned or closed in between."""
        log = self._log
        while True:
            truncation_count, segments = log.truncation_count, list(log.segments)
            try:
                return (yield from start())
            except (Damaged, OSError) as error:
                if log.truncation_count == truncation_count and log.segments[: len(segments)] == segments:
                    if isinstance(error, Damaged):
                        self.refuse_damage(error.segment, error.bad)
                    raise StorageError(f"{log.folder}: {error}") from error
            if log.is_abandoned:
                self.refuse()
            yield None
