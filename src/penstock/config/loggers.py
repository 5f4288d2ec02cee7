"""The levels of this process's loggers, under the names that Kafka gives to levels.

Owns the way between the two vocabularies. Levels belong to the running process: they are not in
the metadata and a restart forgets them, as in Kafka. Refuses with InvalidConfig, InvalidRequest.
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
    """Return the level that counts for a logger, in Kafka's word for it."""
    number = _find(name).getEffectiveLevel()
    return next((word for word, least in _LEVELS.items() if number >= least), "TRACE")


def logger_names() -> list[str]:
    """Return every logger there is, the root first."""
    known = logging.root.manager.loggerDict
    return [ROOT, *sorted(name for name, logger in known.items() if isinstance(logger, logging.Logger))]


def check_level(name: str, level: str | None) -> None:
    """Refuse a level that is none, and a logger that is not there; no level asks to forget the logger's own."""
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
    """Give a logger a level of its own, or with None that of its parent."""
    check_level(name, level)
    _find(name).setLevel(logging.NOTSET if level is None else _LEVELS[level])


def _find(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)
