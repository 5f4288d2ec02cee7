"""When a long-running command stops: on signals, and with the process that started it.

A parent that starts a command with `--stop-at-eof` gives it a pipe as standard input and never writes to it. The pipe
closes when the parent ends, for whatever reason, SIGKILL included; the command then stops as on SIGTERM.
"""

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable
from typing import Annotated

import typer

StopAtEofOption = Annotated[
    bool, typer.Option("--stop-at-eof", help="Stop when standard input is closed, and so with the parent process.")
]


def stop_signals() -> list[signal.Signals]:
    """Return the signals that stop a command. SIGHUP, which a closed terminal sends, is left out under nohup."""
    found = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        found.append(signal.SIGHUP)
    return found


def on_stop_signal(stop: Callable[[], None]) -> None:
    """Call `stop` for each signal that stops a command."""
    for number in stop_signals():
        signal.signal(number, lambda *_: stop())


def stop_at_end_of_input() -> None:
    """Send SIGTERM to this process when standard input is closed."""
    threading.Thread(target=_await_end_of_input, name="end of input", daemon=True).start()


def input_has_ended() -> bool:
    """Return whether standard input is closed, without waiting: for processes that must not have a second thread."""
    ready, _, _ = select.select([0], [], [], 0)
    return bool(ready) and not os.read(0, 4096)


def _await_end_of_input() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
