"""Who is muted, until when, and by which table of quotas.

KIP-219: an answer leaves at once and says how long its client has to wait; from then on nothing is read
from the client until that time is over. `table` is None as long as nobody has a quota, and that is
all that a request then pays for. When a quota changes, everybody is heard again: the new table judges.
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
    """A connection that can be told to be silent."""

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
        told: Callable[[int, float], None] = lambda api_key, seconds: None,
    ) -> None:
        self._clock = clock
        self._told = told
        """Hears for how long the client of a request was told to wait."""
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
            self._hear(channel)

    def client(self, table: Table, client_id: str, channel: Channel) -> Client:
        """The limits of the client behind a channel, to be kept as long as table and client id stay the same."""
        return table.client(ANONYMOUS, client_id, partial(self.mute, channel), self._clock.monotonic())

    def connections(self, host: str) -> Bucket | None:
        table = self.table
        if table is None or not table.limits_connections:
            return None
        return table.connections(host, self._clock.monotonic())

    def mute(self, channel: Channel, api_key: int, seconds: float) -> None:
        """Hear nothing from the channel for so long; a longer time that it was given before stands."""
        until = self._clock.monotonic() + seconds
        muted = self._muted.get(channel)
        self.muted_count_total += 1
        self.muted_s_total += seconds
        self._told(api_key, seconds)
        if muted is None:
            channel.mute()
        elif muted.until >= until:
            return
        else:
            muted.timer.cancel()
        self._muted[channel] = _Muted(until, self._clock.call_later(seconds, partial(self._hear, channel)))

    def _hear(self, channel: Channel) -> None:
        muted = self._muted.pop(channel, None)
        if muted is not None:
            muted.timer.cancel()
            channel.unmute()

    def forget(self, channel: Channel) -> None:
        """The channel is gone."""
        muted = self._muted.pop(channel, None)
        if muted is not None:
            muted.timer.cancel()
