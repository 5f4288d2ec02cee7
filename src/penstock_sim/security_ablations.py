"""Planted bugs in authentication and authorization. Found by the clients of secured.py, authorized.py and tokens.py."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import patch

from penstock.handlers import envelope, fetch
from penstock.security.authorizer import AclIndex, Decision
from penstock.security.mechanisms import ServerMechanisms
from penstock.security.rights import Authorizer, Rights
from penstock.security.sasl import SaslServer, Verdict
from penstock.security.scram import ScramServer, TokenLogin
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
def expired_tokens_are_accepted() -> list[Patch]:
    """Ignore when a delegation token expires, at the login and afterwards."""

    def timeless(token_login: Any) -> Any:
        def found(self: ServerMechanisms, mechanism: str, token_id: str, unknown: Any) -> TokenLogin | None:
            login = token_login(self, mechanism, token_id, unknown)
            return None if login is None else login._replace(expires_at_ms=1 << 50)

        return found

    return [replaced(ServerMechanisms, "_token_login", timeless)]


@bug
def removed_tokens_are_accepted() -> list[Patch]:
    """Let a node remember every token with which somebody has logged in."""

    def remembering(token_login: Any) -> Any:
        kept: dict[tuple[int, str, str], TokenLogin] = {}

        def found(self: ServerMechanisms, mechanism: str, token_id: str, unknown: Any) -> TokenLogin | None:
            login = token_login(self, mechanism, token_id, unknown)
            if login is not None:
                kept[id(self), mechanism, token_id] = login
            return kept.get((id(self), mechanism, token_id))

        return found

    return [replaced(ServerMechanisms, "_token_login", remembering)]


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


@bug
def allow_while_loading() -> list[Patch]:
    """Load the ACLs a second late, and allow everything until then."""

    def late(load: Any) -> Any:
        def loaded(self: Authorizer, acls: Any) -> None:
            held = list(acls)
            asyncio.get_running_loop().call_later(1.0, load, self, held)

        return loaded

    def open_until_then(decide: Any) -> Any:
        def decided(self: Authorizer, *asked: Any) -> Decision:
            return decide(self, *asked) if self.is_loaded else Decision(True, "loading")

        return decided

    def ignored(change: Any) -> Any:
        def changed(self: Authorizer, **changes: Any) -> None:
            if self.is_loaded:
                change(self, **changes)

        return changed

    return [
        replaced(Authorizer, "load", late),
        replaced(Authorizer, "decide", open_until_then),
        replaced(Authorizer, "change", ignored),
    ]


@bug
def stale_cached_verdicts() -> list[Patch]:
    """Keep verdicts when the ACLs change."""
    return [replaced(Rights, "forget", lambda forget: lambda self: None)]


@bug
def deny_lost_on_removal() -> list[Patch]:
    """Remove every ACL of a resource together with one of them (CVE-2024-27309)."""

    def careless(remove: Any) -> Any:
        def removed(self: AclIndex, acl: Any) -> None:
            resources = self._types.get(acl.resource_type)
            for held in () if resources is None else resources.holders.values():
                (held.prefixed if acl.pattern_type == 4 else held.literal).pop(acl.resource_name, None)

        return removed

    return [replaced(AclIndex, "remove", careless)]


@bug
def envelope_authorized_as_the_sender() -> list[Patch]:
    """Carry out forwarded requests with the rights of the node that forwards them."""

    def trusting(handle: Any) -> Any:
        async def handled(context: Any, request: Any) -> Any:
            authorizer, context.authorizer = context.authorizer, None
            try:
                return await handle(context, request)
            finally:
                context.authorizer = authorizer

        return handled

    return [replaced(envelope, "handle", trusting)]


@bug
def replica_fetch_unchecked() -> list[Patch]:
    """Answer a client that fetches as a replica, which moves the ISR and the high watermark (CVE-2018-1288)."""
    return [replaced(fetch, "deny_replica", lambda deny: lambda request, header: None)]
