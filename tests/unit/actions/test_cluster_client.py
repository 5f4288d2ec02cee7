"""actions/cluster_client.py: connections to one broker."""

from __future__ import annotations

import gc
import socket
import warnings
from threading import Thread

import pytest

from penstock.actions.cluster_client import BrokerConnection
from penstock.actions.errors import ActionError


def test_a_connection_that_breaks_before_the_first_response_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closing = Thread(target=lambda: server.accept()[0].close())
        closing.start()
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", ResourceWarning)
            with pytest.raises(ActionError, match="closed the connection without a response"):
                BrokerConnection("127.0.0.1", server.getsockname()[1], {})
            gc.collect()
        closing.join()
    assert [str(each.message) for each in found] == []
