"""Which syncs run side by side, which wait for each other, and who is told what."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from penstock.ports.disk import File
from penstock.ports.real import disk
from penstock.ports.real.disk import SyncThreads


class FakeFile:
    """Its sync ends when it is let go, with an error if it has one."""

    def __init__(self, error: OSError | None = None, *, is_held: bool = False) -> None:
        self.error = error
        self.syncs = 0
        self.begun, self.let_go = threading.Event(), threading.Event()
        if not is_held:
            self.let_go.set()

    def sync(self) -> None:
        self.begun.set()
        assert self.let_go.wait(10)
        self.syncs += 1
        if self.error is not None:
            raise self.error


class Asker:
    def __init__(self, threads: SyncThreads) -> None:
        self.threads = threads
        self.told: list[tuple[Any, OSError | None]] = []
        self._news = asyncio.Event()

    def ask(self, *files: FakeFile) -> None:
        for file in files:
            self.threads.ask(cast(File, file), lambda error, file=file: self._tell(file, error))  # type: ignore[misc]

    def _tell(self, file: FakeFile, error: OSError | None) -> None:
        self.told.append((file, error))
        self._news.set()

    async def hears(self, count: int) -> None:
        """Wait until so many have been reported."""
        while len(self.told) < count:
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), 10)


async def begun(*files: FakeFile) -> None:
    for file in files:
        assert await asyncio.to_thread(file.begun.wait, 10)


@pytest.fixture
async def asker() -> AsyncIterator[Asker]:
    threads = SyncThreads(asyncio.get_running_loop())
    yield Asker(threads)
    threads.stop()


async def test_what_is_asked_for_together_is_reported_together_each_with_its_own_error(asker: Asker) -> None:
    failure = OSError("no")
    files = [FakeFile(failure if number == 3 else None) for number in range(20)]
    asker.ask(*files)
    await asker.hears(20)
    assert dict(asker.told) == {file: file.error for file in files}
    assert [file.syncs for file in files] == [1] * 20
    asker.told.clear()
    asker.ask(*files)
    await asker.hears(1)
    assert len(asker.told) == 20, "the first came alone at first, and no longer does"


async def test_what_is_asked_for_meanwhile_is_the_next_group(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "GROUP_WAIT_S_MAX", 60)
    first, second, third = FakeFile(is_held=True), FakeFile(), FakeFile()
    asker.ask(first)
    await begun(first)
    asker.ask(second, third)
    await asyncio.sleep(0)
    assert not second.begun.is_set() and not third.begun.is_set()
    first.let_go.set()
    await asker.hears(1)
    assert asker.told[0] == (first, None)
    await asker.hears(3)
    assert {file for file, _ in asker.told[1:]} == {second, third}


async def test_a_long_sync_does_not_hold_up_the_next_for_ever(asker: Asker) -> None:
    slow, quick = FakeFile(is_held=True), FakeFile()
    asker.ask(slow)
    await begun(slow)
    asker.ask(quick)
    await asker.hears(1)
    assert asker.told == [(quick, None)]
    late = FakeFile()
    asker.ask(late)
    await asker.hears(2)
    slow.let_go.set()
    await asker.hears(3)
    assert asker.told == [(quick, None), (late, None), (slow, None)]


async def test_stopping_waits_for_everything_that_was_asked_for(asker: Asker) -> None:
    files = [FakeFile(), FakeFile()]
    asker.ask(*files)
    asker.threads.stop()
    assert [file.syncs for file in files] == [1, 1]
    await asker.hears(2)
    assert len(asker.told) == 2
