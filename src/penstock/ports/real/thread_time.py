"""CPU time of the event loop's thread, read so rarely that small requests do not pay for it.

Reading it is a system call that costs as much as a tenth of a small request. So it is read at most once per
`MARK_NS` of ordinary work, and after work that took long: what `used` returns includes up to a millisecond of CPU time
from before the work, and never leaves any out.
"""

from time import monotonic_ns, thread_time_ns
from typing import Final

MARK_NS: Final = 1_000_000


class ThreadTime:
    __slots__ = ("marked_at", "marked_cpu")

    def __init__(self) -> None:
        self.marked_at = 0
        """When CPU time was last read, by the monotonic clock."""
        self.marked_cpu = 0
        """The CPU time that was read then."""

    def mark(self, now_ns: int) -> None:
        """Note the CPU time before some work begins, unless that was done within the last `MARK_NS`."""
        if now_ns - self.marked_at > MARK_NS:
            self.marked_at = now_ns
            self.marked_cpu = thread_time_ns()

    def used(self, held_ns: int) -> int:
        """Return how much of an elapsed time, which ends now, was CPU time of this thread."""
        return self.used_since(self.marked_cpu, held_ns)

    def used_since(self, marked_cpu: int, held_ns: int) -> int:
        """Return the same for work that began soon after an earlier mark, with other work measured in between."""
        self.marked_cpu = thread_time_ns()
        self.marked_at = monotonic_ns()
        return min(held_ns, self.marked_cpu - marked_cpu)
