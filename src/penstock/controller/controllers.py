"""Decisions on controller registrations: their addresses and supported features.

Pure. Informational for users and tools: the quorum itself knows its voters. Refuses nothing.
"""

from dataclasses import dataclass
from uuid import UUID

from penstock.controller.decision import ControllerDecision
from penstock.metadata.image import ControllerImage, Image
from penstock.metadata.records import BrokerEndpoint, BrokerFeature, RegisterControllerRecord
from penstock.model.ids import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistration:
    node_id: NodeId
    incarnation_id: UUID
    end_points: tuple[BrokerEndpoint, ...]
    features: tuple[BrokerFeature, ...] = ()


def decide_controller_registration(image: Image, registration: ControllerRegistration) -> ControllerDecision[None]:
    now = ControllerImage(
        node_id=registration.node_id,
        incarnation_id=registration.incarnation_id,
        end_points=registration.end_points,
        features=registration.features,
    )
    if image.controllers.get(registration.node_id) == now:
        return ControllerDecision((), None)
    record = RegisterControllerRecord(
        controller_id=registration.node_id,
        incarnation_id=registration.incarnation_id,
        end_points=registration.end_points,
        features=registration.features,
    )
    return ControllerDecision((record,), None)
