"""SaslHandshake, versions 0-1: ILLEGAL_SASL_STATE and no mechanism on a connection that has nothing to authenticate.

Before authentication, and to begin a re-authentication, server/authentication.py answers it.
"""

from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import failed
from penstock.model.errors import IllegalSaslState


async def handle(context: Context, request: Request) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=failed(IllegalSaslState()), mechanisms=())
