"""Tests of the Java client 4.3, with the checks of tests/support/java/ClientCheck.java."""

from __future__ import annotations

import pytest

from tests.compat.conftest import MakeTopic
from tests.support.java_tools import JavaTools

pytestmark = pytest.mark.java


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_of_every_codec_are_read_from_any_offset(
    tools: JavaTools, bootstrap: str, make_topic: MakeTopic, codec: str, acks: str
) -> None:
    tools.check("ClientCheck", "roundtrip", bootstrap, make_topic(), codec, acks)


@pytest.mark.parametrize("check", ["times", "longpoll", "topics", "configs", "cluster"])
def test_the_java_client_passes(tools: JavaTools, bootstrap: str, make_topic: MakeTopic, check: str) -> None:
    tools.check("ClientCheck", check, bootstrap, make_topic())
