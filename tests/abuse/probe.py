"""python -m tests.abuse.probe TARGET: the longest time without any response from the node.

Sends ApiVersions every few milliseconds on an idle connection. A slow response was delayed by another client's request.
Also measures how late this process itself wakes up: a large delay means that the machine was busy.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time

from tests.abuse import wire
from tests.abuse.attack import Target
from tests.abuse.child import receive_from_parent, send_to_parent

INTERVAL_S = 0.005
# Shorter gaps are not reported.
NOTED_MS_MIN = 3.0


def probe(target: Target, first: wire.Client, stopped: threading.Event, gaps: list[tuple[float, float, float]]) -> None:
    """Record the start and length of a gap, and how late this process woke up for it."""
    client: wire.Client | None = first
    while not stopped.is_set():
        due = time.monotonic() + INTERVAL_S
        time.sleep(INTERVAL_S)
        began = time.monotonic()
        try:
            client = client or wire.Client(target)
            client.exchange(wire.API_VERSIONS)
        except OSError:
            if client is not None:
                client.close()
            client = None
        gap_ms, late_ms = (time.monotonic() - began) * 1000, (began - due) * 1000
        if gap_ms > NOTED_MS_MIN or client is None:
            gaps.append((began, gap_ms, late_ms))
    if client is not None:
        client.close()


def main() -> None:
    target = Target(**json.loads(sys.argv[1]))
    # The response shows that the node has accepted the connection: only then is it one of its sockets.
    first = wire.Client(target)
    first.exchange(wire.API_VERSIONS)
    stopped = threading.Event()
    gaps: list[tuple[float, float, float]] = []
    thread = threading.Thread(target=probe, args=(target, first, stopped, gaps), daemon=True)
    thread.start()
    send_to_parent("running")
    with contextlib.suppress(ValueError):
        receive_from_parent()
    stopped.set()
    thread.join(wire.ANSWER_S_MAX + 5)
    send_to_parent(gaps)


if __name__ == "__main__":
    main()
