from uuid import UUID

from penstock.controller.controllers import ControllerRegistration, decide_controller_registration
from penstock.metadata.image import EMPTY
from penstock.metadata.records import BrokerEndpoint, RegisterControllerRecord, decode, encode
from penstock.metadata.snapshot import records_of
from penstock.model.ids import NodeId
from tests.unit.metadata.samples import after

END_POINT = BrokerEndpoint(name="CONTROLLER", host="h", port=9093, security_protocol=0)
WISH = ControllerRegistration(node_id=NodeId(3), incarnation_id=UUID(int=5), end_points=(END_POINT,))


def test_a_controller_is_registered_once_and_kept_in_snapshots() -> None:
    (record,) = decide_controller_registration(EMPTY, WISH).records
    assert isinstance(record, RegisterControllerRecord)
    assert decode(encode(record)) == record
    _, image = after(EMPTY, [record])
    assert image.controllers[NodeId(3)].end_points == (END_POINT,)
    assert record in list(records_of(image))
    assert decide_controller_registration(image, WISH).records == ()


def test_the_record_has_kafkas_bytes() -> None:
    (record,) = decide_controller_registration(EMPTY, WISH).records
    assert (
        encode(record).hex()
        == "011b00"
        + "00000003"
        + f"{5:032x}"
        + "00"
        + ("02" + "0b" + b"CONTROLLER".hex() + "02" + b"h".hex() + "2385" + "0000" + "00")
        + "01"
        + "00"
    )
