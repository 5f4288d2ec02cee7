"""AlterUserScramCredentials, version 0: creates, changes and removes SCRAM credentials of users.

The request carries salted passwords. Each user succeeds or fails separately. Goes to controller/credentials.py.
Refuses, per user: UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM, RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE.
"""

from kio.schema.alter_user_scram_credentials.v0.request import AlterUserScramCredentialsRequest
from kio.schema.alter_user_scram_credentials.v0.response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

from penstock.controller.credentials import CredentialResult, Deletion, Upsertion, decide_alter_credentials
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed
from penstock.model.errors import ClusterAuthorizationFailed, Refusal
from penstock.security.principal import user
from penstock.security.unknown_users import new_secret


async def handle(context: Context, request: Request) -> AlterUserScramCredentialsResponse:
    body: AlterUserScramCredentialsRequest = request.body
    deletions = [Deletion(each.name, each.mechanism) for each in body.deletions]
    upsertions = [
        Upsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password)
        for each in body.upsertions
    ]
    protected = _protected(context, request, {each.name for each in deletions} | {each.name for each in upsertions})
    deletions = [each for each in deletions if each.name not in protected]
    upsertions = [each for each in upsertions if each.name not in protected]
    try:
        secret = new_secret(context.entropy.stream("security"))
        results = await context.controller.run(
            lambda image: decide_alter_credentials(image, deletions, upsertions, new_secret=secret)
        )
    except Refusal as refusal:
        names = dict.fromkeys([each.name for each in deletions] + [each.name for each in upsertions])
        results = tuple(CredentialResult(name, refusal) for name in names)
    denied = (CredentialResult(name, ClusterAuthorizationFailed()) for name in sorted(protected))
    return AlterUserScramCredentialsResponse(
        throttle_time=NO_THROTTLE, results=tuple(_result(each) for each in (*denied, *results))
    )


def _protected(context: Context, request: Request, names: set[str]) -> set[str]:
    """Return the super users among the names, unless the client is one: otherwise it could become one."""
    if context.authorizer is None or request.rights is None or request.rights.is_super_user:
        return set()
    return {name for name in names if user(name) in context.authorizer.super_users}


def _result(result: CredentialResult) -> AlterUserScramCredentialsResult:
    return AlterUserScramCredentialsResult(
        user=result.name,
        error_code=NO_ERROR if result.refusal is None else failed(result.refusal),
        error_message=None if result.refusal is None else result.refusal.message,
    )
