"""Throttle times in replies that are already encoded."""

import pytest

from penstock.handlers.support.reply import Encoded
from penstock.handlers.support.throttled import throttled
from penstock.wire.api import ApiKey
from penstock.wire.frame import Header
from penstock.wire.hot import heartbeat


@pytest.mark.parametrize(("version", "tells"), [(0, False), (1, True), (4, True)])
def test_an_answer_that_is_bytes_already_is_told_the_time_where_it_has_room(version: int, tells: bool) -> None:
    header = Header(ApiKey.HEARTBEAT, version, 7, "c", 0)
    header.throttle_ms = 1234
    answer = throttled(header, Encoded((heartbeat.write_response(version, 7, 27),)))
    with_time = bytes(answer.parts[0])
    assert ((1234).to_bytes(4, "big") in with_time) is tells
    assert with_time.endswith(b"\x00\x1b" + (b"\x00" if version >= 4 else b""))
