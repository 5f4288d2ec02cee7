"""The events of a run: a hash of all of them, and the last ones of each owner.

The same seed and commit give the same hash. Events are stored as values and formatted only on demand.
"""

from collections import Counter, deque
from collections.abc import Callable
from hashlib import blake2b
from struct import Struct

EVENTS_KEPT = 50
_pack = Struct(">dI").pack
_Event = tuple[float, str, tuple[object, ...]]
_Packet = tuple[float, str, int, int]


class Trace:
    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self._hash = blake2b(digest_size=8)
        self._last: dict[str, deque[_Event | _Packet]] = {}
        self.faults: Counter[str] = Counter()
        self.fault_at: dict[str, float] = {}
        """When each kind of fault last occurred."""
        self.sometimes: Counter[str] = Counter()
        """Rare states that were reached. A campaign that never reaches one proves little about it."""
        self.on_event: Callable[[float, str, str, tuple[object, ...]], None] | None = None

    def packet(self, source: str, target: str, size: int, checksum: int) -> None:
        now = self.now()
        self._hash.update(_pack(now, checksum))
        # Nearly all events are packets, which are formatted only on demand.
        kept = self._last.get(target)
        if kept is None:
            kept = self._last[target] = deque(maxlen=EVENTS_KEPT)
        kept.append((now, source, size, checksum))

    def event(self, owner: str, kind: str, *detail: object) -> None:
        now = self.now()
        self._hash.update(f"{now}{owner}{kind}{detail}".encode())
        self._keep(owner, (now, kind, detail))
        if self.on_event is not None:
            self.on_event(now, owner, kind, detail)

    def fault(self, kind: str, owner: str, *detail: object) -> None:
        self.faults[kind] += 1
        self.fault_at[kind] = self.now()
        self.event(owner, kind, *detail)

    def _keep(self, owner: str, event: _Event) -> None:
        kept = self._last.get(owner)
        if kept is None:
            kept = self._last[owner] = deque(maxlen=EVENTS_KEPT)
        kept.append(event)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def tail(self, owner: str, count: int = EVENTS_KEPT) -> list[str]:
        """Return the last events of an owner as text."""
        return [_in_words(event) for event in list(self._last.get(owner, ()))[-count:]]

    def owners(self) -> list[str]:
        return sorted(self._last)


def _in_words(event: _Event | _Packet) -> str:
    if len(event) == 4:
        at, source, size, checksum = event
        return f"{at:9.3f}s receives {size} bytes from {source} {checksum:08x}"
    at, kind, detail = event
    return f"{at:9.3f}s {kind} {' '.join(map(str, detail))}"
