"""The event loop of a node: asyncio's, except for sockets that are watched with `add_reader` and `add_writer`.

Their callbacks run as soon as the poll has found them ready, and it polls again unless they have used asyncio;
asyncio itself passes each callback through a queue of handles, and checks its timers and tasks each time:
a fifth of the cost of a small request. Tasks, timers and asyncio's own sockets are left to asyncio.
An exception of a callback goes to the loop's exception handler, as in asyncio. Linux only, like the network port.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from select import EPOLLIN, EPOLLOUT, epoll
from selectors import BaseSelector, EpollSelector, SelectorKey
from time import monotonic_ns
from typing import Any, Final

from penstock.ports.real.thread_time import MARK_NS, ThreadTime

NS_PER_S: Final = 1_000_000_000
NOT_IN: Final = ~EPOLLIN
NOT_OUT: Final = ~EPOLLOUT
LONG_TURN_NS: Final = 1_000_000
"""A turn that takes longer, from one poll to the next, is reported to `watch_turns`."""

Ready = list[tuple[SelectorKey, int]]


class _Watched:
    """The reader and the writer of one socket."""

    __slots__ = ("reader", "writer")

    def __init__(self) -> None:
        self.reader: Callable[[], Any] | None = None
        self.writer: Callable[[], Any] | None = None

    @property
    def events(self) -> int:
        return (EPOLLIN if self.reader else 0) | (EPOLLOUT if self.writer else 0)


class _NodeSelector(BaseSelector):
    """Calls the readers and writers of watched sockets, and returns when asyncio has something to do.

    The sockets of asyncio itself have their own poll, which is one of the descriptors that this one waits for.
    """

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        self._watched: dict[int, _Watched] = {}
        self._epoll = epoll()
        self._asyncio = EpollSelector()
        self._asyncio_fd = self._asyncio.fileno()
        self._epoll.register(self._asyncio_fd, EPOLLIN)
        self.loop_is_needed = False
        """Whether asyncio was used since it last ran."""
        self.thread_time = ThreadTime()
        self._turn_began = monotonic_ns()
        self._turn_cpu = 0
        self.on_long_turn: Callable[[int, int], None] | None = None

    def select(self, timeout: float | None = None) -> Ready:
        self.loop_is_needed = False
        others: Ready = []
        poll, thread_time = self._epoll.poll, self.thread_time
        # The clock is read twice per turn, before and after the poll, for timers and the watchdog alike.
        now = monotonic_ns()
        deadline = inf if timeout is None else now + timeout * NS_PER_S
        while True:
            held = now - self._turn_began
            if held > LONG_TURN_NS and self.on_long_turn is not None:
                self.on_long_turn(held, thread_time.used_since(self._turn_cpu, held))
            ready = poll(timeout)
            self._turn_began = now = monotonic_ns()
            if now - thread_time.marked_at > MARK_NS:
                thread_time.mark(now)
            self._turn_cpu = thread_time.marked_cpu
            for fd, events in ready:
                watched = self._watched.get(fd)
                if watched is None:
                    # Otherwise it is a socket that the previous callback closed.
                    if fd == self._asyncio_fd:
                        others = self._asyncio.select(0)
                    continue
                try:
                    # The end of the connection or an error is reported to whichever callback is set.
                    if events & NOT_OUT and watched.reader is not None:
                        watched.reader()
                    # The reader may have removed the writer, or closed the socket.
                    if events & NOT_IN and watched.writer is not None:
                        watched.writer()
                except Exception as error:
                    self._failed(error)
            if others or self.loop_is_needed:
                return others
            now = monotonic_ns()
            if timeout is not None:
                timeout = (deadline - now) / NS_PER_S
                if timeout <= 0:
                    return others

    # -- watched sockets -------------------------------------------------------------------

    def __contains__(self, fd: int) -> bool:
        return fd in self._watched

    def of(self, fd: int) -> _Watched:
        return self._watched.get(fd) or _Watched()

    def watch(self, fd: int, watched: _Watched) -> None:
        """Poll for the events that the socket's callbacks want now."""
        events = watched.events
        is_known = fd in self._watched
        if events:
            (self._epoll.modify if is_known else self._epoll.register)(fd, events)
            self._watched[fd] = watched
        elif is_known:
            del self._watched[fd]
            self._epoll.unregister(fd)

    # -- asyncio's own sockets -------------------------------------------------------------

    def register(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        return self._asyncio.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> SelectorKey:
        return self._asyncio.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> SelectorKey:
        return self._asyncio.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, SelectorKey]:
        return self._asyncio.get_map()

    def close(self) -> None:
        self._epoll.close()
        self._asyncio.close()


class NodeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._direct = _NodeSelector(self._failed)
        super().__init__(self._direct)

    @property
    def thread_time(self) -> ThreadTime:
        """Return the CPU time of this loop's thread."""
        return self._direct.thread_time

    def watch_turns(self, on_long_turn: Callable[[int, int], None]) -> None:
        """Call a function with elapsed time and CPU time, in nanoseconds, of each turn longer than `LONG_TURN_NS`."""
        self._direct.on_long_turn = on_long_turn

    def call_soon(self, *args: Any, **more: Any) -> asyncio.Handle:  # type: ignore[override]
        self._direct.loop_is_needed = True
        return super().call_soon(*args, **more)

    def call_at(self, *args: Any, **more: Any) -> asyncio.TimerHandle:  # type: ignore[override]
        self._direct.loop_is_needed = True
        return super().call_at(*args, **more)

    def stop(self) -> None:
        self._direct.loop_is_needed = True
        super().stop()

    def _failed(self, error: Exception) -> None:
        self.call_exception_handler({"message": "a socket callback failed", "exception": error})

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        watched = self._direct.of(fd)
        watched.reader = partial(callback, *args) if args else callback
        self._direct.watch(fd, watched)

    def remove_reader(self, fd: Any) -> bool:
        if fd not in self._direct:
            return super().remove_reader(fd)  # asyncio removes its own sockets with this method too
        watched = self._direct.of(fd)
        was_there, watched.reader = watched.reader is not None, None
        self._direct.watch(fd, watched)
        return was_there

    def add_writer(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        watched = self._direct.of(fd)
        watched.writer = partial(callback, *args) if args else callback
        self._direct.watch(fd, watched)

    def remove_writer(self, fd: Any) -> bool:
        if fd not in self._direct:
            return super().remove_writer(fd)
        watched = self._direct.of(fd)
        was_there, watched.writer = watched.writer is not None, None
        self._direct.watch(fd, watched)
        return was_there
