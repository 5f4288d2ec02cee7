"""Compaction passes in a child process, which is started with the first pass and kept for the next."""

from collections.abc import Callable

from penstock.ports.child import Child, Children
from penstock.storage.compaction.task import (
    CANCEL,
    RESUME,
    WORKER_DIED,
    CleanedGroup,
    Failed,
    Task,
    WorkerMessage,
    decode_message,
)

MODULE = "penstock.storage.compaction.child"


class ChildWorker:
    """The side of the event loop."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._child: Child | None = None
        self._on_message: Callable[[WorkerMessage], None] | None = None
        # Whether the child, alive or dead, waits for a reply; meanwhile no message is passed on.
        self._awaits_reply = False
        self._death_reason = ""

    def start(self, task: Task, on_message: Callable[[WorkerMessage], None]) -> None:
        assert self._on_message is None, "one pass at a time"
        self._on_message = on_message
        if self._child is None:
            self._child = self._children.spawn(MODULE, self._received, self._ended)
        self._child.send(task.encode())

    def resume(self) -> None:
        self._awaits_reply = False
        if self._child is None:
            self._end(Failed(why=self._death_reason, errno=WORKER_DIED))
        else:
            self._child.send(RESUME)

    def cancel(self) -> None:
        # This ends the pass: the child then waits for the next task.
        self._awaits_reply, self._on_message = False, None
        if self._child is not None:
            self._child.send(CANCEL)

    def stop(self) -> None:
        self._awaits_reply, self._on_message = False, None
        child, self._child = self._child, None
        if child is not None:
            child.kill()

    def _received(self, line: bytes) -> None:
        assert self._on_message is not None, "a child sends messages only during a pass"
        message = decode_message(line)
        if isinstance(message, CleanedGroup):
            self._awaits_reply = True
            self._on_message(message)
        else:
            self._end(message)

    def _end(self, message: WorkerMessage) -> None:
        on_message, self._on_message = self._on_message, None
        if on_message is not None:
            on_message(message)

    def _ended(self, why: str) -> None:
        self._child = None
        self._death_reason = why
        if not self._awaits_reply:
            self._end(Failed(why=why, errno=WORKER_DIED))
