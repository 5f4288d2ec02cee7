"""The current quotas: finds a client's limits and owns the buckets that count against them.

A new table is built whenever a quota changes. Buckets whose rate is unchanged move over to it, so that
a change for one client does not forgive the debt of another. Clients that share a quota share a bucket. Full
buckets are dropped when there are many, because clients choose their client ids freely. entity.py resolves
entities. Used by throttle.py. Refuses nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from penstock.quotas.bucket import Bucket
from penstock.quotas.entity import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Quotas,
    Sharer,
    find_connection_rate,
    find_quota,
)

BURST_SHARE: Final = 0.05
"""The part of a whole span's quota that may be used in one burst: any span stays below 1.1 times the quota."""
PIECE_SHARE: Final = 0.025
"""The largest part of the quota that one Fetch response may use, unless a single batch is larger."""
BUCKETS_KEPT_MIN: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """The windows in seconds over which rates are measured: for bytes and requests, and for topic changes."""

    rate_s: float = 10.0
    mutation_s: float = 11.0


Mute = Callable[[int, float], None]


class Client:
    """The limits of one client on one connection; None where it has no limit."""

    __slots__ = ("client_id", "fetch", "fetch_size_max", "mutation", "mute", "produce", "request", "table")

    def __init__(self, table: "Table", client_id: str, mute: Mute) -> None:
        self.table = table
        self.client_id = client_id
        self.mute = mute
        """Stops reading from the client for some seconds, after a request of an API."""
        self.produce: Bucket | None = None
        self.fetch: Bucket | None = None
        self.request: Bucket | None = None
        """Counts seconds of event loop time."""
        self.mutation: Bucket | None = None
        self.fetch_size_max = 0


class Table:
    def __init__(self, quotas: Quotas, spans: Spans, before: "Table | None" = None) -> None:
        self._quotas = quotas
        self._spans = spans
        self._shared: WeakValueDictionary[tuple[str, Sharer], Bucket] = WeakValueDictionary()
        self._kept: dict[tuple[str, Sharer], Bucket] = {}
        self._kept_max = BUCKETS_KEPT_MIN
        if before is not None:
            self._shared.update(before._shared)
            self._kept.update(before._kept)
        self.limits_connections = any(entity[0][0] == IP for entity in quotas)

    def client(self, user: str, client_id: str, mute: Mute, now: float) -> Client:
        """Return the limits of a client; clients that share a quota get the same buckets."""
        client = Client(self, client_id, mute)
        client.produce = self._bucket_for(PRODUCER_BYTE_RATE, user, client_id, now)
        client.fetch = self._bucket_for(CONSUMER_BYTE_RATE, user, client_id, now)
        client.request = self._bucket_for(REQUEST_PERCENTAGE, user, client_id, now)
        client.mutation = self._bucket_for(CONTROLLER_MUTATION_RATE, user, client_id, now)
        if client.fetch is not None:
            client.fetch_size_max = max(1, int(client.fetch.rate * self._spans.rate_s * PIECE_SHARE))
        return client

    def connections(self, host: str, now: float) -> Bucket | None:
        """Return the bucket that counts new connections from an address, or None if it has no quota."""
        rate = find_connection_rate(self._quotas, host)
        if rate is None:
            return None
        return self._bucket((CONNECTION_CREATION_RATE, (host, None)), rate, max(1.0, rate), now)

    def _bucket_for(self, key: str, user: str, client_id: str, now: float) -> Bucket | None:
        found = find_quota(self._quotas, key, user, client_id)
        if found is None:
            return None
        rate, sharer = found
        if key == CONTROLLER_MUTATION_RATE:
            return self._bucket((key, sharer), rate, rate * self._spans.mutation_s, now)
        if key == REQUEST_PERCENTAGE:
            rate /= 100
        return self._bucket((key, sharer), rate, rate * self._spans.rate_s * BURST_SHARE, now)

    def _bucket(self, owner: tuple[str, Sharer], rate: float, capacity: float, now: float) -> Bucket:
        bucket = self._shared.get(owner)
        if bucket is None or bucket.rate != rate:
            bucket = self._shared[owner] = self._kept[owner] = Bucket(rate, capacity, now)
            if len(self._kept) > self._kept_max:
                self._drop_full_buckets(now)
        return bucket

    def _drop_full_buckets(self, now: float) -> None:
        self._kept = {owner: bucket for owner, bucket in self._kept.items() if not bucket.is_full(now)}
        self._kept_max = max(BUCKETS_KEPT_MIN, 2 * len(self._kept))
