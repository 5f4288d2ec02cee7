"""fdatasync through Linux's io_uring: many files with one call, and no thread that needs the interpreter.

A sync thread needs the interpreter before and after, when the loop is at its busiest: that costs more than
the sync. Here the kernel does the waiting and wakes the loop through an eventfd. The requests of one turn
are submitted together. Without io_uring, `Ring.open` returns None, and the caller uses threads.
Takes open files only: opening may block. Syncs that the kernel does not accept are passed to `instead`.
"""

import asyncio
import ctypes
import errno
import mmap
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple, Protocol

Done = Callable[[OSError | None], None]

ENTRIES: Final = 256
# The kernel's own limit is four for each core, which leaves a disk idle that can merge many commits.
WORKERS_MAX: Final = 32
_SETUP, _ENTER, _REGISTER = 425, 426, 427
_GET_EVENTS: Final = 1
_REGISTER_EVENTFD, _REGISTER_WORKERS = 4, 19
_FSYNC, _DATA_ONLY = 3, 1
_SINGLE_MMAP: Final = 1
_QUEUE_ENTRIES_AT: Final = 0x10000000
# The kernel's parameters: sizes, flags and features, then the positions of the fields of the two queues.
_PARAMETERS: Final = Struct("=2I 3I I 4I 8IQ 8IQ")
# Operation, file, flags of the sync, and a number that is returned with the result.
_ENTRY: Final = Struct("=BBHi QQ II Q 24x")
_ANSWER: Final = Struct("=QiI")
# Errors that mean that the kernel's worker was interrupted, not that the disk has failed.
_NOT_DONE: Final = frozenset((errno.EINTR, errno.ECANCELED, errno.EAGAIN))


class Synced(Protocol):
    """A file with a descriptor of the operating system; negative after it is closed."""

    fd: int
    path: str

    def sync(self) -> None: ...


class Job(NamedTuple):
    file: Synced
    done: Done
    fd: int
    """The descriptor at the time of the request: the key in this module even if the file is closed meanwhile."""


class Ring:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, fd: int, parameters: bytes, instead: Callable[[Synced, Done], None]
    ) -> None:
        fields = _PARAMETERS.unpack(parameters)
        submission, answers = fields[10:19], fields[19:28]
        size = max(submission[6] + fields[0] * 4, answers[5] + fields[1] * _ANSWER.size)
        self._loop = loop
        self._fd = fd
        self._instead = instead
        self._memory = mmap.mmap(fd, size)
        self._entries = mmap.mmap(fd, fields[0] * _ENTRY.size, offset=_QUEUE_ENTRIES_AT)
        self._words = memoryview(self._memory).cast("I")
        self._tail_at, self._slots_at, self._mask = submission[1] // 4, submission[6] // 4, fields[0] - 1
        self._answer_head_at, self._answer_tail_at = answers[0] // 4, answers[1] // 4
        self._answers_at, self._answer_mask = answers[5], fields[1] - 1
        self._room = fields[0]
        self._requested: list[Job] = []
        # The syncs under way, by their number in the kernel; and by file, the requests that arrived meanwhile.
        self._under_way: dict[int, tuple[Job, int]] = {}
        self._behind: dict[int, list[Job]] = {}
        self._number = 0
        self._was_single = True
        self.on_time: Callable[[int], None] | None = None
        self._event_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        event_fd = ctypes.c_int(self._event_fd)
        _call(_REGISTER, fd, _REGISTER_EVENTFD, ctypes.addressof(event_fd), 1)
        loop.add_reader(self._event_fd, self._answered)

    @classmethod
    def open(cls, loop: asyncio.AbstractEventLoop, instead: Callable[[Synced, Done], None]) -> "Ring | None":
        """Return a ring for the loop; None if the system has none, or does not allow this process to use one."""
        if not sys.platform.startswith("linux"):
            return None
        parameters = ctypes.create_string_buffer(_PARAMETERS.size)
        try:
            fd = _call(_SETUP, ENTRIES, ctypes.addressof(parameters))
        except OSError:
            return None
        try:
            if not _PARAMETERS.unpack(parameters.raw)[5] & _SINGLE_MMAP:
                raise OSError(errno.ENOSYS, "the io_uring of this kernel is too old")
            ring = cls(loop, fd, parameters.raw, instead)
        except OSError:
            os.close(fd)
            return None
        workers = (ctypes.c_uint * 2)(WORKERS_MAX, 0)
        # Older kernels do not support this; they use fewer workers.
        with suppress(OSError):
            _call(_REGISTER, fd, _REGISTER_WORKERS, ctypes.addressof(workers), 2)
        return ring

    def ask(self, file: Synced, done: Done) -> None:
        """Sync what was written to the file so far; the callbacks for one file are called in order."""
        job = Job(file, done, file.fd)
        behind = self._behind.get(file.fd)
        if behind is not None:
            behind.append(job)
            return
        self._behind[file.fd] = []
        self._requested.append(job)
        if len(self._requested) > 1:
            return
        if self._was_single and not self._under_way:
            # The last request came alone too: waiting for the end of the turn would only cost time.
            self._submit()
        else:
            self._loop.call_soon(self._submit)

    def stop(self) -> None:
        """Wait for the syncs under way; their callbacks run if the loop continues."""
        self._submit()
        while self._under_way and self._event_fd >= 0:
            _call(_ENTER, self._fd, 0, 1, _GET_EVENTS)
            self._take_answers(lambda done, error: self._loop.call_soon(done, error))
        self._loop.remove_reader(self._event_fd)
        self._words.release()
        self._memory.close()
        self._entries.close()
        os.close(self._event_fd)
        os.close(self._fd)
        self._event_fd = -1

    def _submit(self) -> None:
        room = self._room - len(self._under_way)
        jobs, self._requested = self._requested[:room], self._requested[room:]
        if not jobs:
            return
        self._was_single = len(jobs) == 1
        words, now = self._words, time.monotonic_ns()
        tail = words[self._tail_at]
        for position, job in enumerate(jobs, tail):
            self._number += 1
            self._under_way[self._number] = (job, now)
            slot = position & self._mask
            _ENTRY.pack_into(
                self._entries, slot * _ENTRY.size, _FSYNC, 0, 0, job.file.fd, 0, 0, 0, _DATA_ONLY, self._number
            )
            words[self._slots_at + slot] = slot
        words[self._tail_at] = (tail + len(jobs)) & 0xFFFFFFFF
        try:
            taken = _call(_ENTER, self._fd, len(jobs))
        except OSError:
            taken = 0
        if taken < len(jobs):
            # Out of memory, most likely. The kernel has not read the rest, so they can be withdrawn.
            words[self._tail_at] = (tail + taken) & 0xFFFFFFFF
            for number in range(self._number - len(jobs) + taken + 1, self._number + 1):
                self._hand_over(self._under_way.pop(number)[0])

    def _answered(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._event_fd)
        self._take_answers(_call_back)

    def _take_answers(self, call_back: Callable[[Done, OSError | None], object]) -> None:
        words, now = self._words, time.monotonic_ns()
        head, tail = words[self._answer_head_at], words[self._answer_tail_at]
        finished: list[tuple[Job, OSError | None]] = []
        while head != tail:
            number, result, _ = _ANSWER.unpack_from(
                self._memory, self._answers_at + (head & self._answer_mask) * _ANSWER.size
            )
            job, begun = self._under_way.pop(number)
            if self.on_time is not None:
                self.on_time(now - begun)
            if -result in _NOT_DONE:
                self._hand_over(job)
            else:
                error = OSError(-result, os.strerror(-result), job.file.path) if result < 0 else None
                finished.append((job, error))
            head = (head + 1) & 0xFFFFFFFF
        words[self._answer_head_at] = head
        for job, error in finished:
            try:
                self._finish(job, error, call_back)
            except Exception as failure:
                # The other callbacks must run too.
                self._loop.call_exception_handler({"message": "the callback of a sync failed", "exception": failure})
        if self._requested:
            self._submit()

    def _hand_over(self, job: Job) -> None:
        self._instead(job.file, lambda error: self._finish(job, error, _call_back))

    def _finish(self, job: Job, error: OSError | None, call_back: Callable[[Done, OSError | None], object]) -> None:
        for later in self._behind.pop(job.fd, ()):
            self.ask(later.file, later.done)
        call_back(job.done, error)


def _call_back(done: Done, error: OSError | None) -> None:
    done(error)


def _call(number: int, *arguments: int) -> int:
    """Make a system call; raise OSError. EINTR means that nothing was done yet."""
    while True:
        result: int = _syscall(number, *arguments, *(0,) * (6 - len(arguments)))
        if result >= 0:
            return result
        code = ctypes.get_errno()
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))


_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.argtypes = (ctypes.c_long,) * 7
_syscall.restype = ctypes.c_long
