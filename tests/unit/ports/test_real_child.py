import time

from penstock.ports.real_child import Pace, RealChildren


def test_work_is_held_to_its_rate() -> None:
    pace = Pace(1_000_000)
    began = time.monotonic()
    for _ in range(10):
        pace.worked(10_000)
    assert 0.09 < time.monotonic() - began < 5


def test_work_without_a_limit_takes_half_of_the_time_at_most() -> None:
    pace = Pace(float("inf"))
    began = time.monotonic()
    time.sleep(0.03)
    pace.worked(1)
    assert time.monotonic() - began >= 0.06


async def test_a_child_that_is_killed_says_nothing_more() -> None:
    children = RealChildren()
    ended: list[str] = []
    child = children.spawn("penstock.storage.compaction.child", lambda line: None, ended.append)
    child.kill()
    await children.stop()
    assert ended == []


async def test_a_child_that_ends_by_itself_says_why() -> None:
    children = RealChildren()
    ended: list[str] = []
    child = children.spawn("penstock.storage.compaction.child", lambda line: None, ended.append)
    child.send(b"no task")
    for task in list(children._running):
        await task
    assert ended == ["the child process ended with 1"]
    await children.stop()
