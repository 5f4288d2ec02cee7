"""Detection of when a read-only data folder accepts writes again.

| state     | entered by                                 | appends  | left by                          |
|-----------|--------------------------------------------|----------|----------------------------------|
| online    | startup; a successful probe                | accepted | a failed write; a failed sync    |
| read-only | a failed write; startup without its reserve | rejected | a successful probe; a failed sync |
| offline   | a failed sync                              | rejected | the next start                   |

A probe occupies the reserve and as much again, makes that durable and releases the second half: a folder that is full
again after one batch would change its state all the time. A folder that soon becomes read-only again waits longer for
its next probe. Called by directory.py; calls reserve.py.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from penstock.ports.clock import Clock, Timer
from penstock.ports.disk import Disk, File
from penstock.storage.directory import LogDirectory
from penstock.storage.reserve import FILE_NAME, Reserve

PROBE_S: Final = 0.5
PROBE_S_MAX: Final = 30.0
CALM_S: Final = 30.0
"""After accepting writes for this long, the pause between probes is reset."""
REPEAT_S: Final = 60.0
"""How often the log repeats why the folder is read-only."""

logger = logging.getLogger(__name__)


class WriteProbe:
    """Probes one data folder while it is read-only."""

    def __init__(
        self, directory: LogDirectory, reserve: Reserve, disk: Disk, clock: Clock, on_change: Callable[[], None]
    ) -> None:
        """Watch a folder; call `on_change` when it becomes read-only and when it accepts writes again."""
        self._directory = directory
        self._reserve = reserve
        self._disk = disk
        self._clock = clock
        self._on_change = on_change
        self._pause_s = PROBE_S
        self._recovered_at = float("-inf")
        self._logged_at = float("-inf")
        self._timer: Timer | None = None
        self._file: File | None = None
        directory.on_refusal = self._refused

    def start(self) -> None:
        """Occupy the reserve. Without enough room for it the folder is read-only."""
        try:
            self._reserve.restore()
        except OSError as error:
            self._directory.refuse_writes(error)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._directory.on_refusal = lambda error: None
        self._on_change = lambda: None

    def _refused(self, error: OSError) -> None:
        soon = self._clock.monotonic() - self._recovered_at < CALM_S
        self._pause_s = min(self._pause_s * 2, PROBE_S_MAX) if soon else PROBE_S
        self._log_refusal()
        self._wait()
        self._on_change()

    def _log_refusal(self) -> None:
        self._logged_at = self._clock.monotonic()
        logger.error(
            "%s; it is read-only, and other nodes lead its partitions where they can",
            self._directory.describe_refusal(),
        )

    def _wait(self) -> None:
        if self._clock.monotonic() - self._logged_at >= REPEAT_S:
            self._log_refusal()
        self._timer = self._clock.call_later(self._pause_s, self._probe)

    def _probe(self) -> None:
        self._timer = None
        if self._directory.failure is not None:
            return
        try:
            self._reserve.take(self._reserve.held + self._reserve.room_needed)
            self._file = self._disk.open(f"{self._directory.path}/{FILE_NAME}")
        except OSError:
            self._release_excess()
            self._wait()
            return
        self._disk.sync_later(self._file, self._synced)

    def _synced(self, error: OSError | None) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        self._release_excess()
        if self._directory.failure is not None:
            return
        if error is not None or not self._reserve.is_whole:
            self._wait()
            return
        self._recovered_at = self._clock.monotonic()
        self._directory.accept_writes()
        logger.info("%s accepts writes again", self._directory.path)
        self._on_change()

    def _release_excess(self) -> None:
        """Release everything beyond the reserve."""
        if self._reserve.held > self._reserve.size:
            with suppress(OSError):
                self._reserve.restore()
