"""The damage of a log, and the errors that it causes.

`Quarantine` owns `damage` and `damaged_from`: reads stop before the damage, appends are rejected, and nothing is
truncated. A file in the partition's folder makes every later start check again (damage.py). log.py calls it before
writes, and to turn disk errors into errors for clients. Refuses: StorageError.
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
    from penstock.storage.recovered import Recovered

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Quarantine:
    """The damage of one log, if there is any."""

    __slots__ = ("_log", "_may_use_reserve", "damage", "damaged_from", "is_provisional")

    def __init__(self, log: Log, state: Recovered) -> None:
        self._log = log
        self.damage = state.damage
        """A description for people; None if appends are accepted."""
        self.damaged_from = state.damaged_from
        """The first offset that is not served."""
        self.is_provisional = state.is_provisional
        """Whether some files could not be read when the log was opened; it counts as damaged until they can be."""
        self._may_use_reserve = False
        if self.damage is not None:
            log.directory.note_damage()

    # Begin and end

    def begin(self, offset: int, why: str, *, is_final: bool = True) -> None:
        """Stop serving records from an offset on and reject appends: records there are missing or unreadable."""
        if self.damaged_from is None or offset < self.damaged_from:
            self.damaged_from = offset
            self.damage = why
            log = self._log
            log.directory.note_damage()
            logger.error("%s is quarantined from offset %d: %s", log.topic_partition, offset, why)
            if is_final:
                damage.save_quarantine(log.directory.disk, log.folder, offset, why)

    def lift(self) -> None:
        """Serve all records and accept appends again, because the unreadable ones are readable."""
        log = self._log
        logger.info("%s can be read again; its quarantine is lifted", log.topic_partition)
        self.damage = self.damaged_from = None
        with suppress(OSError):
            damage.lift_quarantine(log.directory.disk, log.folder)

    def refuse_appends(self, why: str) -> None:
        """Reject appends, but serve all records."""
        self.damage = why

    def use_reserve(self) -> None:
        """Let appends use the reserved space of a full disk, for the metadata log."""
        self._may_use_reserve = True

    # Errors

    def check_append(self) -> None:
        """Reject an append to a damaged log or in a folder that accepts no writes, unless it may use the reserve."""
        if self.damage is not None or self._log.directory.failure is not None or not self._may_use_reserve:
            self.refuse()

    def refuse(self) -> NoReturn:
        directory = self._log.directory
        state = "read-only" if directory.is_read_only else "offline"
        raise StorageError(self.damage or f"{directory.path} is {state}: {directory.refusal}")

    def refuse_damage(self, segment: Segment, bad: BadBatch) -> NoReturn:
        """Quarantine the log from the damage on: nothing is truncated, and nothing after it is served.

        Until it is known where the damage of a large segment begins, no record of that segment is served.
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
                why = f"{segment.path} is damaged at position {bad.position}: {bad.why}; searching for its beginning"
                self.begin(segment.base_offset, why, is_final=False)
                log.directory.run(job, partial(self._located, segment, self.damage))
        self.refuse()

    def _located(
        self, segment: Segment, said: str | None, found: tuple[BadBatch, int] | None, error: BaseException | None
    ) -> None:
        """Limit the quarantine to the damaged part, unless other damage was found meanwhile."""
        if found is None or self.damage != said or segment not in self._log.segments:
            return
        bad, offset = found
        self.damage = self.damaged_from = None
        self.begin(offset, damage.describe(segment, bad, offset))

    def refuse_gap(self, segment: Segment, offset: int, next_offset: int) -> NoReturn:
        """Quarantine the log from an offset that no batch contains: even compaction keeps the end of every segment."""
        self.begin(offset, f"{segment.path} ends before offset {offset}, but must end at {next_offset}")
        self.refuse()

    # File access

    def guard(self, work: Callable[[], _T]) -> _T:
        """Run work on the files; turn disk errors and damage into StorageError."""
        try:
            return work()
        except Damaged as found:
            self.refuse_damage(found.segment, found.bad)
        except OSError as error:
            raise StorageError(f"{self._log.folder}: {error}") from error

    def guard_job(self, start: Callable[[], Job[_T]]) -> Job[_T]:
        """Run a job like `guard`; start again if the log was truncated or compacted between its slices."""
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
