"""UpdateFeatures, versions 0-2: changes the finalized feature levels of the cluster.

Either all updates happen or none. v0 has only a flag that allows a downgrade, which the codec converts to
v1's types; v1 adds validate_only. Up to v1 a successful response lists each feature, and Java
clients of that age require it; v2 has only a top-level error.
Goes to controller/features.py, and for kraft.version to metadata/membership.py.
Refuses: INVALID_UPDATE_VERSION, REQUEST_TIMED_OUT.
"""

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.schema.update_features.v1.response import UpdatableFeatureResult
from kio.schema.update_features.v1.response import UpdateFeaturesResponse as UpdateFeaturesResponseV1
from kio.schema.update_features.v2.request import UpdateFeaturesRequest
from kio.schema.update_features.v2.response import UpdateFeaturesResponse

from penstock.controller.features import FeatureUpdate, KRaftState, decide_update
from penstock.handlers.support.context import Context, Request
from penstock.handlers.support.deadline import within
from penstock.handlers.support.entities import NO_ERROR, NO_THROTTLE, failed
from penstock.metadata.membership import known_voters, name_voters
from penstock.model.errors import InvalidUpdateVersion, Refusal

LISTS_EACH_FEATURE_UNTIL: Final = 1


async def handle(context: Context, request: Request) -> UpdateFeaturesResponse | UpdateFeaturesResponseV1:
    body: UpdateFeaturesRequest = request.body
    # One update per feature, the last one, as in Kafka.
    updates = {
        update.feature: FeatureUpdate(
            name=update.feature, level=update.max_version_level, upgrade_type=update.upgrade_type
        )
        for update in body.feature_updates
    }
    error, message = NO_ERROR, None
    try:
        await within(context.clock, body.timeout, _update(context, body, tuple(updates.values())))
    except InvalidUpdateVersion as refusal:
        error = failed(refusal)
        message = "The update failed for all features since the following feature had an error: " + refusal.message
    except Refusal as refusal:
        error = failed(refusal)
    return _reply(request.header.version, error, message, updates)


async def _update(context: Context, body: UpdateFeaturesRequest, updates: tuple[FeatureUpdate, ...]) -> None:
    quorum = context.quorum
    names_voters = await context.controller.run(
        lambda image: decide_update(
            image,
            updates,
            node_id=context.node_id,
            kraft=KRaftState(
                level=quorum.voter_registry.kraft_version,
                unknown_voters=[voter.id for voter in known_voters(quorum) if voter.directory_id is None],
            ),
            validate_only=body.validate_only,
        )
    )
    if names_voters:
        await name_voters(quorum, context.clock, timeout_s=body.timeout.total_seconds())


def _reply(
    version: int, error: ErrorCode, message: str | None, updates: dict[str, FeatureUpdate]
) -> UpdateFeaturesResponse | UpdateFeaturesResponseV1:
    common: dict[str, Any] = {"throttle_time": NO_THROTTLE, "error_code": error, "error_message": message}
    if version > LISTS_EACH_FEATURE_UNTIL:
        return UpdateFeaturesResponse(**common)
    listed = updates if error is NO_ERROR else {}
    return UpdateFeaturesResponseV1(
        **common,
        # Kafka sends "NONE" here, and its tools print it.
        results=tuple(
            UpdatableFeatureResult(feature=name, error_code=NO_ERROR, error_message="NONE") for name in listed
        ),
    )
