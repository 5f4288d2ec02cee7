"""The secured broker of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compat.kafka_python.sockets import closing_sockets
from tests.compat.security.secured import Secured


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    with made.broker:
        yield made


@pytest.fixture(autouse=True)
def client_sockets() -> Iterator[None]:
    with closing_sockets():
        yield
