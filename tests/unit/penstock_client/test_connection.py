"""Connections of the client that do not come about."""

import socket
import threading

import pytest

from penstock_client.protocol.connection import Connection, ConnectionLost


def test_a_connection_that_ends_during_the_tls_handshake_may_be_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            accepted, _ = server.accept()
            accepted.recv(1)
            accepted.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(ConnectionLost, match="ended the TLS handshake"):
            Connection("127.0.0.1", server.getsockname()[1], {"security.protocol": "SSL"}, timeout_s=30)
        thread.join()
