"""Passes in a child process, which is started with the first one and kept for the next."""

from collections.abc import Callable

from penstock.ports.child import Child, Children
from penstock.storage.compaction.task import GIVE_UP, GO_ON, WORKER_DIED, CleanedGroup, Failed, News, Task, decode_news

MODULE = "penstock.storage.compaction.child"


class ChildWorker:
    """The loop's end of the line."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._child: Child | None = None
        self._tell: Callable[[News], bool] | None = None

    def start(self, task: Task, tell: Callable[[News], bool]) -> None:
        assert self._tell is None, "one pass at a time"
        self._tell = tell
        if self._child is None:
            self._child = self._children.spawn(MODULE, self._heard, self._ended)
        self._child.send(task.encode())

    def stop(self) -> None:
        self._tell = None
        child, self._child = self._child, None
        if child is not None:
            child.kill()

    def _heard(self, line: bytes) -> None:
        assert self._child is not None and self._tell is not None, "a child speaks only when it was asked"
        news, tell = decode_news(line), self._tell
        if isinstance(news, CleanedGroup):
            # What is given up ends there: the child then waits for the next task.
            if tell(news):
                self._child.send(GO_ON)
                return
            self._tell = None
            self._child.send(GIVE_UP)
        else:
            self._tell = None
            tell(news)

    def _ended(self, why: str) -> None:
        self._child = None
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(Failed(why=why, errno=WORKER_DIED))
