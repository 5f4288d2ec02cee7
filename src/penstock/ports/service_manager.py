"""The service manager that supervises this process, for example systemd: it learns when the node is ready."""

from typing import Protocol


class ServiceManager(Protocol):
    @property
    def watchdog_s(self) -> float | None:
        """The time after which the manager ends a process that does not call `alive`; None if it does not."""
        ...

    def starting(self, status: str) -> None:
        """Say what the start waits for."""
        ...

    def ready(self, status: str) -> None: ...

    def alive(self) -> None:
        """Say that the event loop runs."""
        ...

    def stopping(self) -> None: ...
