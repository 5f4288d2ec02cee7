"""Checkpoints are read as they were written, and incomplete ones are rejected."""

import pytest

from penstock.metadata.image import EMPTY, Image
from penstock.metadata.records import (
    ClientQuotaRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    QuotaEntityPart,
)
from penstock.metadata.snapshot import (
    SLICE_RECORDS_MAX,
    Snapshot,
    SnapshotWriter,
    batches_of,
    end_of,
    file_name,
    load,
    parse_name,
    records_of,
)
from penstock.model.errors import Corruption
from penstock_sim.disk import SimDisk
from tests.unit.metadata.samples import after, broker, config, topic, topic_id


def sample() -> Image:
    _, image = after(
        EMPTY,
        [
            FeatureLevelRecord(name="group.version", feature_level=1),
            FeatureLevelRecord(name="metadata.version", feature_level=30),
            broker(1),
            *topic("orders", 1, partitions=2),
            PartitionChangeRecord(
                partition_id=1,
                topic_id=topic_id(1),
                leader=2,
                isr=(2,),
                eligible_leader_replicas=(1,),
                last_known_elr=(1,),
                leader_recovery_state=1,
                adding_replicas=(3,),
            ),
            config("retention.ms", "5", topic="orders"),
            ClientQuotaRecord(
                entity=(QuotaEntityPart(entity_type="user", entity_name=None),), key="producer_byte_rate", value=1.5
            ),
            ProducerIdsRecord(broker_id=1, next_producer_id=1000),
        ],
    )
    return image


def write(disk: SimDisk, image: Image) -> str:
    disk.make_folder("/data")
    writer = SnapshotWriter(disk, "/data", Snapshot(image, 42))
    while writer.write_slice():
        pass
    outcome: list[OSError | None] = []
    writer.finish(outcome.append)
    assert outcome == [None]
    return writer.name


def test_an_image_is_read_back_from_its_checkpoint() -> None:
    disk = SimDisk()
    image = sample()
    name = write(disk, image)
    size = len(disk.read_file(f"/data/{name}"))
    assert load(disk, "/data", name) == Snapshot(image, 42, size=size)
    assert disk.list("/data") == [name]


def test_the_file_name_contains_the_end_of_the_checkpoint() -> None:
    image = sample()
    assert file_name(image) == "00000000000000000010-0000000001.checkpoint"
    assert parse_name(file_name(image)) == end_of(image)
    assert parse_name("00000000000000000010-0000000001.checkpoint.part") is None
    assert parse_name("00000000000000000009.log") is None


def test_the_metadata_version_comes_first() -> None:
    assert next(iter(records_of(sample()))) == FeatureLevelRecord(name="metadata.version", feature_level=30)


def test_a_large_image_is_written_in_slices() -> None:
    image = sample()
    for number in range(2, 2 + SLICE_RECORDS_MAX):
        _, image = after(image, topic(f"t{number}", number))
    assert len(list(batches_of(Snapshot(image, 42)))) == 5, "header, three slices, footer"
    disk = SimDisk()
    assert load(disk, "/data", write(disk, image)).image == image


def test_any_flipped_byte_is_detected() -> None:
    disk = SimDisk()
    name = write(disk, sample())
    path = f"/data/{name}"
    offsets_and_epochs = {*range(8), *range(12, 16)}
    for position in range(len(disk.read_file(path))):
        if position in offsets_and_epochs:
            continue  # neither in a batch's checksum nor used: the file name contains both
        disk.flip(path, position)
        try:
            read = load(disk, "/data", name).image
        except Corruption:
            read = None
        disk.flip(path, position)
        assert read in (None, sample()), f"byte {position}"


def test_any_truncation_is_detected() -> None:
    content = b"".join(batches_of(Snapshot(sample(), 42)))
    disk = SimDisk()
    disk.make_folder("/data")
    for size in range(0, len(content), 7):
        disk.replace_file(f"/data/{file_name(sample())}", content[:size])
        with pytest.raises(Corruption):
            load(disk, "/data", file_name(sample()))


def test_data_after_the_footer_is_rejected() -> None:
    batches = list(batches_of(Snapshot(sample(), 42)))
    disk = SimDisk()
    disk.make_folder("/data")
    disk.replace_file(f"/data/{file_name(sample())}", b"".join([*batches, batches[0]]))
    with pytest.raises(Corruption):
        load(disk, "/data", file_name(sample()))
