"""Raw connections that log in with a delegation token."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from penstock.security.scram import ScramClient
from tests.differential.entities import read_response, request_frame
from tests.differential.session import Session


class LoginFailed(AssertionError):
    """The broker has rejected the token. The argument is its response."""


@dataclass
class TokenSession(Session):
    """A session whose connections log in with a token."""

    token_id: str = ""
    hmac: bytes = b""
    mechanism: str = "SCRAM-SHA-256"
    accepted: Any = None
    """The broker's last response to a login."""

    def send(self, sent: bytes) -> None:
        if self._connection is None:
            self._log_in()
        super().send(sent)

    def log_in(self) -> Any:
        """Log in without a request; return the broker's last response."""
        self.hang_up()
        self._log_in()
        return self.accepted

    def _log_in(self) -> None:
        password = base64.b64encode(self.hmac).decode()
        client = ScramClient(self.mechanism, self.token_id, password, nonce="nonce", is_token=True)
        self._step("sasl_handshake", mechanism=self.mechanism)
        message: bytes | None = client.first()
        while message is not None:
            self.accepted = self._step("sasl_authenticate", auth_bytes=message)
            answered = self.accepted["auth_bytes"]
            message = client.step(bytes.fromhex(answered) if isinstance(answered, str) else answered)

    def _step(self, api: str, **values: Any) -> Any:
        super().send(request_frame(api, 1, values))
        frame = self.receive()
        if not isinstance(frame, bytes):
            raise LoginFailed(frame)
        answer = read_response(api, 1, frame)
        if answer["error_code"] != "0 none":
            raise LoginFailed(answer)
        return answer
