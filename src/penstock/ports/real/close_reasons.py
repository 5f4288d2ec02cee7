"""Why a node closes a connection: the names count in metrics, the texts appear in the log."""

from typing import Final

REASONS: Final = {
    "frame_timeout": "its request did not arrive in time",
    "send_timeout": "it does not read its replies",
    "idle": "it was idle for too long",
    "request_memory": "memory for requests is short, and it holds %d bytes for an incomplete request",
    "reply_memory": "memory for replies is short, and it has %d unread bytes of them",
    "read_error": "a file cannot be read",
    "tls_handshake": "its TLS handshake failed",
    "tls_records": "its TLS records are not accepted",
    "tls_timeout": "its TLS handshake did not end in time",
}
