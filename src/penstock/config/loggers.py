"""The log levels of this process, by Kafka's level names.

Translates between Kafka's and Python's levels. Levels belong to the running process: they are not in
the metadata and do not survive a restart, as in Kafka. Raises InvalidConfig and InvalidRequest.
"""

import logging
from typing import Final

from penstock.model.errors import InvalidConfig, InvalidRequest

ROOT: Final = "root"
TRACE: Final = 5
_LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}


def level_of(name: str) -> str:
    """Return the effective level of a logger as Kafka's level name."""
    number = _find(name).getEffectiveLevel()
    return next((word for word, least in _LEVELS.items() if number >= least), "TRACE")


def logger_names() -> list[str]:
    """Return the names of all loggers, the root logger first."""
    known = logging.root.manager.loggerDict
    return [ROOT, *sorted(name for name, logger in known.items() if isinstance(logger, logging.Logger))]


def check_level(name: str, level: str | None) -> None:
    """Raise if the level or the logger does not exist; None requests removal of the logger's level."""
    if name != ROOT and name not in logger_names():
        raise InvalidConfig(f"Logger {name} does not exist!")
    if level is None:
        if name == ROOT:
            raise InvalidRequest("Removing the log level of the root logger is not allowed")
    elif level not in _LEVELS:
        raise InvalidConfig(
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(_LEVELS))}"
        )


def set_level(name: str, level: str | None) -> None:
    """Set the level of a logger; None makes it inherit its parent's level."""
    check_level(name, level)
    _find(name).setLevel(logging.NOTSET if level is None else _LEVELS[level])


def _find(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)
