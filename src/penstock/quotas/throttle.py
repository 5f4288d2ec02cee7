"""Throttled clients: which connections are muted, until when, under the current table of quotas.

KIP-219: a response is sent immediately and says how long its client must wait; the connection is not read
until that time has passed. `table` is None while no quota is set, and a request then pays only for that check.
When a quota changes, all clients are unmuted and the new table decides.
Next: limits.py. Refuses nothing.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

from penstock.ports.clock import Clock, Timer
from penstock.quotas.bucket import Bucket
from penstock.quotas.entity import ANONYMOUS, Quotas
from penstock.quotas.limits import Client, Spans, Table


class Channel(Protocol):
    """A connection that can stop and resume reading."""

    def mute(self) -> None: ...

    def unmute(self) -> None: ...


class _Muted:
    __slots__ = ("timer", "until")

    def __init__(self, until: float, timer: Timer) -> None:
        self.until = until
        self.timer = timer


class Throttle:
    def __init__(
        self,
        clock: Clock,
        spans: Callable[[], Spans],
        on_throttled: Callable[[int, float], None] = lambda api_key, seconds: None,
    ) -> None:
        self._clock = clock
        self._on_throttled = on_throttled
        """Called with how long the client of a request was throttled."""
        self._spans = spans
        self._muted: dict[Channel, _Muted] = {}
        self.table: Table | None = None
        self.muted_s_total = 0.0
        self.muted_count_total = 0

    @property
    def muted_count(self) -> int:
        return len(self._muted)

    def quotas_changed(self, quotas: Quotas) -> None:
        self.table = Table(quotas, self._spans(), self.table) if quotas else None
        for channel in list(self._muted):
            self._unmute(channel)

    def client(self, table: Table, client_id: str, channel: Channel, user: str = ANONYMOUS) -> Client:
        """Return the limits of the client of a channel; valid while the table and the client id stay the same."""
        return table.client(user, client_id, partial(self.mute, channel), self._clock.monotonic())

    def connections(self, host: str) -> Bucket | None:
        table = self.table
        if table is None or not table.limits_connections:
            return None
        return table.connections(host, self._clock.monotonic())

    def mute(self, channel: Channel, api_key: int, seconds: float) -> None:
        """Stop reading from the channel for some seconds; a longer wait that is already in force stays."""
        until = self._clock.monotonic() + seconds
        muted = self._muted.get(channel)
        self.muted_count_total += 1
        self.muted_s_total += seconds
        self._on_throttled(api_key, seconds)
        if muted is None:
            channel.mute()
        elif muted.until >= until:
            return
        else:
            muted.timer.cancel()
        self._muted[channel] = _Muted(until, self._clock.call_later(seconds, partial(self._unmute, channel)))

    def _unmute(self, channel: Channel) -> None:
        muted = self._muted.pop(channel, None)
        if muted is not None:
            muted.timer.cancel()
            channel.unmute()

    def forget(self, channel: Channel) -> None:
        """Remove a channel that was closed."""
        muted = self._muted.pop(channel, None)
        if muted is not None:
            muted.timer.cancel()
