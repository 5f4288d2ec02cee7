"""Throttle times in replies that are already encoded."""

import pytest

from penstock.handlers.support.reply import Encoded
from penstock.handlers.support.throttled import throttled
from penstock.wire.api import ApiKey
from penstock.wire.frame import Header
from penstock.wire.hot import heartbeat


@pytest.mark.parametrize(("version", "has_field"), [(0, False), (1, True), (4, True)])
def test_the_throttle_time_is_set_in_encoded_responses_that_have_the_field(version: int, has_field: bool) -> None:
    header = Header(ApiKey.HEARTBEAT, version, 7, "c", 0)
    header.throttle_ms = 1234
    answer = throttled(header, Encoded((heartbeat.write_response(version, 7, 27),)))
    with_time = bytes(answer.parts[0])
    assert ((1234).to_bytes(4, "big") in with_time) is has_field
    assert with_time.endswith(b"\x00\x1b" + (b"\x00" if version >= 4 else b""))
