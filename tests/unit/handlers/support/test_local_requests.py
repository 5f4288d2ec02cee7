"""Requests of a node to itself."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.handlers.support import local_requests, registry
from penstock.handlers.support.context import Request
from penstock.handlers.support.local_requests import answer_locally
from penstock.scheduling.scheduler import Scheduler
from penstock.wire.api import APIS, ApiKey
from tests.support.stepped_clock import SteppedClock
from tests.unit.scheduling.test_scheduler import Offload


async def answer(context: Any, request: Request) -> tuple[int, Any]:
    return request.header.version, request.body


@pytest.mark.parametrize("is_loaded", [False, True])
def test_the_handler_of_a_local_request_is_loaded_off_the_event_loop(
    is_loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = ApiKey.ALTER_PARTITION
    monkeypatch.setattr(local_requests, "COLD", {key: answer})
    monkeypatch.setattr(registry, "_loaded", {(key, APIS[key].max_version)} if is_loaded else set())

    async def story() -> None:
        clock, offload = SteppedClock(), Offload()
        context: Any = SimpleNamespace(scheduler=Scheduler(clock, offload))
        answering = asyncio.ensure_future(answer_locally(context, key, "a request"))
        await clock.advance(0.01)
        assert answering.done() is is_loaded
        assert len(offload.calls) == (0 if is_loaded else 1)
        for call, done in offload.calls:
            done(call(), None)
        await clock.advance(0.01)
        assert await answering == (APIS[key].max_version, "a request")

    asyncio.run(story())
