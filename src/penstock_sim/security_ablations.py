"""Planted bugs in authentication. Found by the intruder of secured.py."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from penstock.security.sasl import SaslServer, Verdict
from penstock.security.scram import ScramServer
from penstock.server.authentication import ListenerSecurity
from penstock_sim.bugs import Patch, bug, replaced


@bug
def node_requests_of_clients() -> list[Patch]:
    """Let every authenticated client act as a node."""

    def believing(identify: Any) -> Any:
        def trusted(self: ListenerSecurity, session: Any, principal: Any) -> None:
            identify(self, session, principal)
            session.connection.is_node = True

        return trusted

    return [replaced(ListenerSecurity, "identify", believing)]


@bug
def expired_sessions_are_served() -> list[Patch]:
    """Answer requests after the session has expired."""

    def forgetful(classify: Any) -> Any:
        def served(self: SaslServer, api_key: int, now_ms: int) -> Verdict:
            verdict = classify(self, api_key, now_ms)
            return Verdict.PASS if verdict is Verdict.CLOSE else verdict

        return served

    return [replaced(SaslServer, "_classify_authenticated", forgetful)]


@bug
def principal_changes_on_reauthentication() -> list[Patch]:
    """Accept another user in a re-authentication."""

    def careless(accepted: Any) -> Any:
        def changed(self: SaslServer, *outcome: Any) -> Any:
            self.principal = None
            return accepted(self, *outcome)

        return changed

    return [replaced(SaslServer, "_accepted", careless)]


@bug
def unknown_users_are_accepted() -> list[Patch]:
    """Skip the proof of SCRAM."""

    def believing(finish: Any) -> Any:
        def accepted(self: ScramServer, text: str, credential: Any) -> Any:
            with patch("penstock.security.scram.hmac.compare_digest", lambda left, right: True):
                self._is_known = True
                return finish(self, text, credential)

        return accepted

    return [replaced(ScramServer, "_finish", believing)]
