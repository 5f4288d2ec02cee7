"""SaslAuthenticate, versions 0-2: ILLEGAL_SASL_STATE on a connection that has nothing to authenticate.

Before authentication, and during a re-authentication, server/authentication.py answers it.
"""

from datetime import timedelta
from typing import Final

from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.static.primitive import i64Timedelta

from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import failed
from penstock.model.errors import IllegalSaslState

NO_LIFETIME: Final = i64Timedelta.parse(timedelta(0))


async def handle(context: Context, request: Request) -> SaslAuthenticateResponse:
    refusal = IllegalSaslState("SaslAuthenticate request received after successful authentication")
    return SaslAuthenticateResponse(
        error_code=failed(refusal), error_message=refusal.message, auth_bytes=b"", session_lifetime=NO_LIFETIME
    )
