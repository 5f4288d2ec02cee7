"""The quotas as they hold now: finds a client's limits and keeps the buckets they are counted in.

A table is made anew whenever a quota changes; buckets whose rate stays the same move over to it, so
a change for one client does not forgive another. Clients that share a quota share a bucket. Buckets
of clients that have been quiet are dropped once there are many: client ids are the clients' to choose.
Entities are resolved by entity.py. Used by throttle.py. Refuses nothing.
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
"""Of what may pass in the whole span: so much may come at once, so any span stays below 1.1 of the quota."""
PIECE_SHARE: Final = 0.025
"""No fetch is answered with more of it than this, unless one batch alone is larger."""
BUCKETS_KEPT_MIN: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """Over how many seconds rates are held: of bytes and requests, and of changes to topics."""

    rate_s: float = 10.0
    mutation_s: float = 11.0


Mute = Callable[[int, float], None]


class Client:
    """The limits of one client on one connection; None where there is none."""

    __slots__ = ("client_id", "fetch", "fetch_size_max", "mutation", "mute", "produce", "request", "table")

    def __init__(self, table: "Table", client_id: str, mute: Mute) -> None:
        self.table = table
        self.client_id = client_id
        self.mute = mute
        """For a request of an API, reads nothing from the client for so many seconds."""
        self.produce: Bucket | None = None
        self.fetch: Bucket | None = None
        self.request: Bucket | None = None
        """Counts seconds of the event loop."""
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
        """The limits of a client; shares its buckets with whoever the quota is shared with."""
        client = Client(self, client_id, mute)
        client.produce = self._bucket_for(PRODUCER_BYTE_RATE, user, client_id, now)
        client.fetch = self._bucket_for(CONSUMER_BYTE_RATE, user, client_id, now)
        client.request = self._bucket_for(REQUEST_PERCENTAGE, user, client_id, now)
        client.mutation = self._bucket_for(CONTROLLER_MUTATION_RATE, user, client_id, now)
        if client.fetch is not None:
            client.fetch_size_max = max(1, int(client.fetch.rate * self._spans.rate_s * PIECE_SHARE))
        return client

    def connections(self, host: str, now: float) -> Bucket | None:
        """What counts the new connections of an address."""
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

    def _bucket(self, place: tuple[str, Sharer], rate: float, capacity: float, now: float) -> Bucket:
        bucket = self._shared.get(place)
        if bucket is None or bucket.rate != rate:
            bucket = self._shared[place] = self._kept[place] = Bucket(rate, capacity, now)
            if len(self._kept) > self._kept_max:
                self._drop_the_quiet(now)
        return bucket

    def _drop_the_quiet(self, now: float) -> None:
        self._kept = {place: bucket for place, bucket in self._kept.items() if not bucket.is_full(now)}
        self._kept_max = max(BUCKETS_KEPT_MIN, 2 * len(self._kept))
