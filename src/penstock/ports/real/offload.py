"""The offload port: one thread."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any


class ThreadOffload:
    """Runs one call at a time: a second thread would take a second core from other processes of the host."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    def run(self, call: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="penstock-offload")
        loop = asyncio.get_running_loop()
        self._executor.submit(call).add_done_callback(partial(_pass_on, loop, done))

    def stop(self) -> None:
        if self._executor is not None:
            executor, self._executor = self._executor, None
            executor.shutdown(wait=False, cancel_futures=True)


def _pass_on(
    loop: asyncio.AbstractEventLoop, done: Callable[[Any, BaseException | None], None], future: "Future[Any]"
) -> None:
    if future.cancelled() or loop.is_closed():
        return
    error = future.exception()
    loop.call_soon_threadsafe(done, None if error is not None else future.result(), error)
