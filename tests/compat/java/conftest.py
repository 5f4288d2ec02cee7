"""Fixture: one JVM for all of Kafka's tools, or a skip with the reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.java_tools import JavaMissing, JavaTools


@pytest.fixture(scope="session")
def tools() -> Iterator[JavaTools]:
    try:
        jvm = JavaTools()
    except JavaMissing as reason:
        pytest.skip(str(reason))
    yield jvm
    jvm.close()
