"""Formats of log lines: text, or one JSON object per line.

The fields of a request (server/request_log.py) follow the message in text and are members in JSON.
"""

import json
import logging
import time
from enum import StrEnum
from typing import Final

from penstock.server.request_log import FIELDS

TEXT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class TextFormatter(logging.Formatter):
    def __init__(self, core: int | None = None) -> None:
        super().__init__(TEXT if core is None else TEXT.replace("%(name)s", f"core {core}: %(name)s"))

    def formatMessage(self, record: logging.LogRecord) -> str:
        shown = [f"{name}={value!r}" for name, value in _fields(record).items()]
        line = super().formatMessage(record)
        return f"{line} [{' '.join(shown)}]" if shown else line


class JsonFormatter(logging.Formatter):
    def __init__(self, core: int | None = None) -> None:
        super().__init__()
        self._core: dict[str, object] = {} if core is None else {"core": core}

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        members: dict[str, object] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            **self._core,
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            members["exception"] = self.formatException(record.exc_info)
        return json.dumps(members, ensure_ascii=False, default=str)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: record.__dict__[name] for name in FIELDS if name in record.__dict__}


def formatter(style: LogFormat, core: int | None = None) -> logging.Formatter:
    """Return the formatter of a node; the lines of a core of a machine with several have its number."""
    return JsonFormatter(core) if style is LogFormat.JSON else TextFormatter(core)
