"""A copy of this process that runs a function: it starts without loading a program, and shares loaded memory.

The process must have no other threads when it forks: a lock that one of them holds would stay locked in the copy.
"""

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable

from penstock.cli.lifetime import stop_signals

_POLL_S = 0.01


class ForkedProcess:
    """The copy, with the methods of subprocess.Popen."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def send_signal(self, number: int) -> None:
        # A process that has exited keeps its id until `poll` collects it, so the signal cannot reach another one.
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired([f"process {self.pid}"], timeout or 0.0)
            time.sleep(_POLL_S)
        return code


def fork(run: Callable[[], int], *, stdin: int, stdout: int, close: Iterable[int]) -> ForkedProcess:
    """Run a function in a copy of this process, which exits with the code that it returns.

    The copy has the given descriptors as standard input and output, closes others, and handles no signals. It has its
    own session, so that Ctrl-C reaches only the parent.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    # A signal that arrives before the copy has reset the parent's handlers would be lost.
    stopping = stop_signals()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stopping)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setsid()
            for number in stopping:
                signal.signal(number, signal.SIG_DFL)
            os.dup2(stdin, 0)
            os.dup2(stdout, 1)
            for descriptor in close:
                os.close(descriptor)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            code = run()
        except BaseException:
            traceback.print_exc()
        finally:
            # Without the clean-up of the parent's callers.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return ForkedProcess(pid)
