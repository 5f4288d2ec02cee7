"""Log lines for people and for machines."""

import json
import logging
import sys

from penstock.cli.log_format import LogFormat, formatter


def line(style: LogFormat, *, error: bool = False, **extra: object) -> str:
    try:
        raise ValueError("the reason")
    except ValueError:
        told = sys.exc_info() if error else None
    record = logging.LogRecord("penstock.server", logging.WARNING, __file__, 1, "it %s", ("failed",), told)
    record.__dict__.update(extra)
    return formatter(style).format(record)


def test_text_has_the_request_after_the_message() -> None:
    text = line(LogFormat.TEXT, api="Fetch", client_id="c\n1", correlation_id=7, connection="10.0.0.1:5")
    assert text.endswith(
        r"WARNING penstock.server: it failed [api='Fetch' client_id='c\n1' correlation_id=7 connection='10.0.0.1:5']"
    )
    assert line(LogFormat.TEXT).endswith("it failed")


def test_json_is_one_object_on_one_line() -> None:
    text = line(LogFormat.JSON, error=True, api="Fetch", client_id="c\n1", correlation_id=7)
    assert "\n" not in text
    members = json.loads(text)
    assert (members["level"], members["message"], members["client_id"], members["api"]) == (
        "warning",
        "it failed",
        "c\n1",
        "Fetch",
    )
    assert "ValueError: the reason" in members["exception"]
    assert members["time"].endswith("Z")
