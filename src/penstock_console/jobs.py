"""Changes that take long: they run in a thread, report their progress, and can be stopped."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from penstock_console.errors import api_error

JOBS_MAX: Final = 100


class Job:
    """A change that is being executed."""

    def __init__(self, action: str, owner: Any = None) -> None:
        self.key = secrets.token_urlsafe(12)
        self.action = action
        self.owner = owner
        self.state = "running"
        self.done = 0
        self.total: int | None = None
        self.message = ""
        self.error: dict[str, Any] | None = None
        self.stop_requested = threading.Event()

    def describe(self) -> dict[str, Any]:
        return {
            "job": self.key,
            "action": self.action,
            "state": self.state,
            "done": self.done,
            "total": self.total,
            "message": self.message,
            "error": self.error,
        }


class Jobs:
    def __init__(self) -> None:
        self._by_key: OrderedDict[str, Job] = OrderedDict()

    def start(self, job: Job, work: Callable[[Job], str]) -> None:
        """Run a job in a thread. `work` returns the message to show at the end."""
        self._by_key[job.key] = job
        while len(self._by_key) > JOBS_MAX:
            self._by_key.popitem(last=False)
        threading.Thread(target=_run, args=(job, work), name="job", daemon=True).start()

    def find(self, key: str, owner: Any) -> Job | None:
        job = self._by_key.get(key)
        return job if job is not None and job.owner is owner else None

    def stop_all(self) -> None:
        for job in self._by_key.values():
            job.stop_requested.set()


def _run(job: Job, work: Callable[[Job], str]) -> None:
    try:
        job.message = work(job)
        job.state = "stopped" if job.stop_requested.is_set() else "done"
    except Exception as error:
        found = api_error(error)
        reason = f"{type(error).__name__}: {error}"
        job.error = found.content() if found else {"code": "INTERNAL_ERROR", "message": reason, "hint": None}
        job.message = job.error["message"]
        job.state = "failed"
