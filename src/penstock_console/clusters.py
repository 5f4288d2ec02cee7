"""A cluster as one user sees it: its connection, clients that are reused, cached metadata and history."""

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from penstock.actions.connection import Connection
from penstock_console.history import History
from penstock_console.sampler import Ends, GroupProgress, read_ends, read_groups
from penstock_console.settings import ClusterSettings, Policy

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from penstock.actions.cluster_client import ClusterClient

T = TypeVar("T")

FRESH_S: Final = 1.0
STALE_S: Final = 60.0
COSTLY_S: Final = 0.1


class Cached(Generic[T]):
    """A value that is read again when it is old.

    If reading takes long, the old value is returned while a thread reads the new one.
    """

    def __init__(self, read: Callable[[], T], executor: ThreadPoolExecutor) -> None:
        self._read = read
        self._executor = executor
        self._lock = threading.Lock()
        self._value: T | None = None
        self._read_at = 0.0
        self._cost_s = 0.0
        self._is_refreshing = False

    def get(self, *, fresh_s: float = FRESH_S) -> T:
        """Return the value; one that is costly to read may be older than `fresh_s`."""
        value, age = self._value, time.monotonic() - self._read_at
        if value is not None and age < max(fresh_s, 5 * self._cost_s):
            return value
        if value is not None and self._cost_s > COSTLY_S and age < STALE_S:
            self._refresh_later()
            return value
        return self._refresh(fresh_s)

    def get_fresh(self, fresh_s: float) -> T:
        """Return a value that is at most this old, however long it takes to read."""
        value = self._value
        is_fresh = value is not None and time.monotonic() - self._read_at < fresh_s
        return value if is_fresh and value is not None else self._refresh(fresh_s)

    def forget(self) -> None:
        """Read again at the next use, because the cluster was changed."""
        self._read_at = -math.inf

    def _refresh(self, fresh_s: float) -> T:
        with self._lock:
            # Another thread may have read it while this one waited.
            if self._value is None or time.monotonic() - self._read_at >= fresh_s:
                began = time.monotonic()
                self._value = self._read()
                self._read_at = time.monotonic()
                self._cost_s = self._read_at - began
            return self._value

    def _refresh_later(self) -> None:
        if not self._is_refreshing:
            self._is_refreshing = True
            self._executor.submit(self._refresh_in_background)

    def _refresh_in_background(self) -> None:
        try:
            self._refresh(FRESH_S)
        except Exception:
            # The next request reads in the foreground once the value is stale, and reports the error.
            pass
        finally:
            self._is_refreshing = False


class Partition(NamedTuple):
    number: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


class Topic(NamedTuple):
    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[Partition, ...]

    @property
    def replication_factor(self) -> int:
        return max((len(each.replicas) for each in self.partitions), default=0)

    @property
    def offline(self) -> int:
        return sum(each.leader is None for each in self.partitions)

    @property
    def under_replicated(self) -> int:
        return sum(each.is_under_replicated for each in self.partitions)


class Metadata(NamedTuple):
    as_of_ms: int
    cluster_id: str
    brokers: tuple[int, ...]
    topics: Mapping[str, Topic]


class ClusterAccess:
    """A cluster with the credentials of one user, or of the console."""

    def __init__(
        self,
        settings: ClusterSettings,
        connection: Connection,
        policy: Policy,
        masks: Mapping[str, tuple[str, ...]],
        *,
        user: str | None = None,
        history: History | None = None,
    ) -> None:
        self.name = settings.name
        self.settings = settings
        self.connection = connection
        self.policy = policy
        self.masks = masks
        self.user = user
        self.history = history or History()
        self.is_closed = False
        self.on_close: list[Callable[[], None]] = []
        """What to call when the user logs out or the console stops."""
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="refresh")
        self._response = self.cached(lambda: read_metadata_response(connection))
        self._metadata = self.cached(lambda: parse_metadata(self._response.get_fresh(FRESH_S)))
        self._ends = self.cached(lambda: self._read(read_ends))
        self._groups = self.cached(lambda: self._read(read_groups))
        self._state: Cached[Any] | None = None
        self._hanging: Cached[Any] | None = None

    def cached(self, read: Callable[[], T]) -> Cached[T]:
        return Cached(read, self._executor)

    @cached_property
    def admin(self) -> "AdminClient":
        from penstock.actions.librdkafka import open_admin

        return open_admin(self.connection)

    def open(self) -> "ClusterClient":
        """Open a client for requests that librdkafka has no function for. The caller closes it."""
        from penstock.actions.cluster_client import open_cluster

        return open_cluster(self.connection)

    def open_for(self, topics: Sequence[str]) -> "ClusterClient":
        """Open a client that knows only these topics, which is faster in a large cluster."""
        from penstock.actions.cluster_client import open_cluster

        return open_cluster(self.connection, topics)

    def metadata(self) -> Metadata:
        return self._metadata.get()

    def ends(self, *, fresh_s: float = FRESH_S) -> Ends:
        return self._ends.get(fresh_s=fresh_s)

    def groups(self, *, fresh_s: float = FRESH_S) -> Mapping[str, GroupProgress]:
        return self._groups.get(fresh_s=fresh_s)

    def state(self, read: "Callable[[ClusterClient], Any]") -> Any:
        """Return what `read` returns, from a cache; it is always the same function."""
        if self._state is None:
            self._state = self.cached(lambda: self._read(read))
        return self._state.get(fresh_s=2.0)

    def hanging(self, find: "Callable[[ClusterAccess], Any]") -> Any:
        """Return what `find` returns, from a cache of a minute; it is always the same function."""
        if self._hanging is None:
            self._hanging = self.cached(lambda: find(self))
        return self._hanging.get(fresh_s=60.0)

    def changed(self) -> None:
        """Read everything again at the next use."""
        for each in (self._response, self._metadata, self._ends, self._groups, self._state):
            if each is not None:
                each.forget()

    def _read(self, read: "Callable[[ClusterClient], T]") -> T:
        with self.open() as cluster:
            # The metadata of 10,000 topics costs more than all else that is read, so the reads of a moment share it.
            cluster.metadata = self._response.get_fresh(FRESH_S).content
            return read(cluster)

    def close(self) -> None:
        self.is_closed = True
        self._executor.shutdown(wait=False, cancel_futures=True)
        self.history.close()
        for close in self.on_close:
            close()


class MetadataResponse(NamedTuple):
    """The Metadata response with all topics."""

    as_of_ms: int
    content: Any


def read_metadata_response(connection: Connection) -> MetadataResponse:
    from penstock.actions.cluster_client import open_cluster

    with open_cluster(connection) as cluster:
        return MetadataResponse(int(time.time() * 1000), cluster.metadata)


def parse_metadata(found: MetadataResponse) -> Metadata:
    response = found.content
    return Metadata(
        as_of_ms=found.as_of_ms,
        cluster_id=response.cluster_id or "",
        brokers=tuple(sorted(broker.node_id for broker in response.brokers)),
        topics={str(topic.name): _topic(topic) for topic in sorted(response.topics, key=lambda topic: str(topic.name))},
    )


def _topic(topic: Any) -> Topic:
    return Topic(
        name=str(topic.name),
        topic_id=str(topic.topic_id),
        is_internal=bool(topic.is_internal),
        partitions=tuple(
            Partition(
                number=int(each.partition_index),
                leader=int(each.leader_id) if each.leader_id >= 0 else None,
                leader_epoch=int(each.leader_epoch),
                replicas=tuple(map(int, each.replica_nodes)),
                isr=tuple(map(int, each.isr_nodes)),
                offline=tuple(map(int, each.offline_replicas)),
            )
            for each in sorted(topic.partitions, key=lambda each: each.partition_index)
        ),
    )
