"""Requests about delegation tokens, for the tests of their handlers."""

from datetime import timedelta
from typing import Any

from penstock.handlers.support.context import Request
from penstock.handlers.support.registry import COLD
from penstock.model.acl import Acl
from penstock.security.principal import Principal, user
from penstock.security.rights import Authorizer
from penstock.security.tokens import TokenSecrets
from penstock.wire import codec
from penstock.wire.api import APIS, ApiKey
from penstock.wire.frame import Header
from tests.unit.handlers.fakes import FakeConnection, FakeNode
from tests.unit.handlers.requests import body_of

ALICE, BOB, CAROL, ADMIN = map(user, ("alice", "bob", "carol", "admin"))
DAY_MS = 24 * 3_600_000
NOT_ALLOWED, DISABLED = 64, 61


class TokenNode(FakeNode):
    """A node that issues tokens, with an authorizer if there are ACLs."""

    def __init__(self, acls: tuple[Acl, ...] | None = None, *, is_enabled: bool = True) -> None:
        super().__init__()
        self.context.token_secrets = TokenSecrets("key") if is_enabled else None
        if acls is not None:
            self.context.authorizer = Authorizer(super_users=[ADMIN])
            self.context.authorizer.load(acls)

    async def send(self, client: Principal, api_key: int, version: int | None = None, **values: Any) -> Any:
        """Send a request of a client; return the response as an entity of the version."""
        version = APIS[api_key].max_version if version is None else version
        body = body_of(api_key, version, **values)
        received = codec.read_request(api_key, version, codec.write_request(api_key, version, body))
        header = Header(api_key, version, 1, "test", 0)
        if self.context.authorizer is not None:
            header.rights = self.context.authorizer.rights(client, "10.1.2.3")
        connection: Any = FakeConnection()
        reply = await COLD[api_key](self.context, Request(header, received, connection, principal=client))
        return codec.read_response(api_key, version, codec.write_response(api_key, version, reply))

    async def create(self, client: Principal = ALICE, owner: Principal | None = None, **values: Any) -> Any:
        fields: dict[str, Any] = {
            "owner_principal_type": None if owner is None else owner.type,
            "owner_principal_name": None if owner is None else owner.name,
            "renewers": [],
            "max_lifetime": timedelta(milliseconds=-1),
        }
        return await self.send(client, ApiKey.CREATE_DELEGATION_TOKEN, **fields | values)

    async def described(self, client: Principal = ALICE, *owners: Principal) -> list[tuple[str, str]]:
        """Return the owners and ids of the tokens that a client sees."""
        wanted = [{"principal_type": each.type, "principal_name": each.name} for each in owners] or None
        reply = await self.send(client, ApiKey.DESCRIBE_DELEGATION_TOKEN, owners=wanted)
        assert int(reply.error_code) == 0
        return [(token.principal_name, token.token_id) for token in reply.tokens]


def renewer(principal: Principal) -> dict[str, str]:
    return {"principal_type": principal.type, "principal_name": principal.name}
