"""Everything that requests share: the settings, the clusters, the logins, and the threads that call actions."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from penstock.sqlview import isolated
from penstock_console.clusters import ClusterAccess
from penstock_console.errors import ApiError, not_found
from penstock_console.history import History
from penstock_console.jobs import Jobs
from penstock_console.limits import Limits
from penstock_console.plans import Plans
from penstock_console.sampler import Sampler
from penstock_console.sessions import Session, Sessions, login_connection
from penstock_console.settings import ConsoleSettings

T = TypeVar("T")
THREADS_MAX: Final = 16
CHILDREN_MAX: Final = 2
"""Child processes that run SQL, conditions of tails, and searches."""


class Console:
    """The state of the process. Started and closed with the application."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self.settings = settings
        self.sessions = Sessions()
        self.limits = Limits()
        self.plans = Plans()
        self.jobs = Jobs()
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="console")
        self._samplers: dict[ClusterAccess, asyncio.Task[None]] = {}
        self._shared = {
            name: ClusterAccess(
                cluster, cluster.connection, settings.policy(cluster), settings.masks, history=self._history(name)
            )
            for name, cluster in settings.clusters.items()
            if not cluster.requires_login
        }

    def _history(self, cluster: str) -> History:
        if self.settings.history is None:
            return History()
        from penstock_console.history_file import HistoryFile

        return History(HistoryFile(self.settings.history, cluster), now_ms=int(time.time() * 1000))

    def start(self) -> None:
        isolated.limit_children(CHILDREN_MAX)
        for access in self._shared.values():
            self._start_sampling(access)

    async def close(self) -> None:
        for task in self._samplers.values():
            task.cancel()
        await asyncio.gather(*self._samplers.values(), return_exceptions=True)
        self.jobs.stop_all()
        self.sessions.close()
        for access in self._shared.values():
            access.close()
        isolated.close_idle()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, call: Callable[[], T]) -> T:
        """Run a blocking call in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def find(self, name: str, session: Session | None) -> ClusterAccess:
        """Return a cluster as the user of a session sees it."""
        cluster = self.settings.clusters.get(name)
        if cluster is None:
            raise not_found(f"The console has no cluster '{name}'.")
        if not cluster.requires_login:
            return self._shared[name]
        access = session.access.get(name) if session is not None else None
        if access is None:
            raise ApiError(401, "LOGIN_REQUIRED", f"Cluster '{name}' requires a login.")
        return access

    async def log_in(self, session: Session | None, name: str, user: str, password: str) -> Session:
        cluster = self.settings.clusters.get(name)
        if cluster is None:
            raise not_found(f"The console has no cluster '{name}'.")
        if not cluster.requires_login:
            raise ApiError(400, "INVALID_REQUEST", f"Cluster '{name}' needs no login.")
        connection = await self.run(lambda: login_connection(cluster, user, password))
        access = ClusterAccess(cluster, connection, self.settings.policy(cluster), self.settings.masks, user=user)
        made = self.sessions.add(session, access)
        self._start_sampling(access)
        return made

    def _start_sampling(self, access: ClusterAccess) -> None:
        task = asyncio.get_running_loop().create_task(self._sample(access))
        self._samplers[access] = task
        task.add_done_callback(lambda _: self._samplers.pop(access, None))

    async def _sample(self, access: ClusterAccess) -> None:
        sampler = Sampler(access)
        while not access.is_closed:
            pause_s = await self.run(sampler.sample)
            await asyncio.sleep(pause_s)
