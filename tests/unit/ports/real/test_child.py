import pytest

from penstock.ports.real import child as child_module
from penstock.ports.real.child import Pace, RealChildren


class HandTime:
    """A clock that advances only in `sleep`."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(0.0, seconds)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> HandTime:
    made = HandTime()
    monkeypatch.setattr(child_module, "time", made)
    return made


def test_work_is_limited_to_its_rate(time: HandTime) -> None:
    pace = Pace(1_000_000)
    for _ in range(10):
        pace.worked(10_000)
    assert time.now - 100 == pytest.approx(0.1)


def test_work_without_a_limit_takes_at_most_half_of_the_time(time: HandTime) -> None:
    pace = Pace(float("inf"))
    time.sleep(0.03)
    pace.worked(1)
    assert time.now - 100 == pytest.approx(0.06)


async def test_a_killed_child_calls_no_callback() -> None:
    children = RealChildren()
    ended: list[str] = []
    child = children.spawn("penstock.storage.compaction.child", lambda line: None, ended.append)
    child.kill()
    await children.stop()
    assert ended == []


async def test_a_child_that_ends_reports_its_exit_code() -> None:
    children = RealChildren()
    ended: list[str] = []
    child = children.spawn("penstock.storage.compaction.child", lambda line: None, ended.append)
    child.send(b"no task")
    for task in list(children._running):
        await task
    assert ended == ["the child process ended with 1"]
    await children.stop()
