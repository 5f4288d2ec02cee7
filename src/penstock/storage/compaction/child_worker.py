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
        self._tell: Callable[[News], None] | None = None
        # Whether the child, alive or not, waits for an answer; nobody is told anything meanwhile.
        self._is_asked = False
        self._why_dead = ""

    def start(self, task: Task, tell: Callable[[News], None]) -> None:
        assert self._tell is None, "one pass at a time"
        self._tell = tell
        if self._child is None:
            self._child = self._children.spawn(MODULE, self._heard, self._ended)
        self._child.send(task.encode())

    def go_on(self) -> None:
        self._is_asked = False
        if self._child is None:
            self._end(Failed(why=self._why_dead, errno=WORKER_DIED))
        else:
            self._child.send(GO_ON)

    def give_up(self) -> None:
        # What is given up ends there: the child then waits for the next task.
        self._is_asked, self._tell = False, None
        if self._child is not None:
            self._child.send(GIVE_UP)

    def stop(self) -> None:
        self._is_asked, self._tell = False, None
        child, self._child = self._child, None
        if child is not None:
            child.kill()

    def _heard(self, line: bytes) -> None:
        assert self._tell is not None, "a child speaks only when it was asked"
        news = decode_news(line)
        if isinstance(news, CleanedGroup):
            self._is_asked = True
            self._tell(news)
        else:
            self._end(news)

    def _end(self, news: News) -> None:
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(news)

    def _ended(self, why: str) -> None:
        self._child = None
        self._why_dead = why
        if not self._is_asked:
            self._end(Failed(why=why, errno=WORKER_DIED))
