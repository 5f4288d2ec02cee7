import asyncio

import pytest

from penstock_console.errors import ApiError
from penstock_console.limits import FILTERS_MAX, Limits


def test_streams_are_limited_and_given_back() -> None:
    limits = Limits(streams=2)
    limits.take_stream()
    limits.take_stream()
    with pytest.raises(ApiError) as raised:
        limits.take_stream()
    assert raised.value.status == 429
    limits.give_stream_back()
    limits.take_stream()


def test_streams_with_a_child_process_are_limited_further() -> None:
    limits = Limits()
    for _ in range(FILTERS_MAX):
        limits.take_stream(has_child=True)
    with pytest.raises(ApiError):
        limits.take_stream(has_child=True)
    limits.take_stream()
    limits.give_stream_back(has_child=True)
    limits.take_stream(has_child=True)


async def test_a_read_waits_for_another_and_not_forever() -> None:
    limits = Limits(reads=1, wait_s=0.01)
    async with limits.read():
        with pytest.raises(ApiError) as raised:
            async with limits.read():
                raise AssertionError("two reads run at a time")
        assert raised.value.status == 429
    async with limits.read():
        await asyncio.sleep(0)


async def test_a_read_that_fails_makes_room() -> None:
    limits = Limits(reads=1, wait_s=0.01)
    for _ in range(3):
        with pytest.raises(ValueError, match="bad"):
            async with limits.read():
                raise ValueError("bad")
