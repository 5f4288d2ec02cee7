"""Raw connections that log in with SASL PLAIN, for tests of what users may do."""

from __future__ import annotations

from dataclasses import dataclass

from tests.differential.entities import read_response, request_frame
from tests.differential.session import Session


@dataclass
class LoggedIn(Session):
    """A session of one user: every new connection is authenticated first."""

    user: str = ""
    password: str = ""

    def send(self, sent: bytes) -> None:
        if self._connection is None and self.user:
            for api, values in (
                ("sasl_handshake", {"mechanism": "PLAIN"}),
                ("sasl_authenticate", {"auth_bytes": f"\0{self.user}\0{self.password}".encode()}),
            ):
                super().send(request_frame(api, 1, values))
                frame = self.receive()
                assert isinstance(frame, bytes), f"{self.user} cannot log in: {frame}"
                assert read_response(api, 1, frame)["error_code"] == "0 none", f"{self.user} cannot log in"
        super().send(sent)
