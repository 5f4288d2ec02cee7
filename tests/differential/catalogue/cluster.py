"""ApiVersions, DescribeCluster, features, log directories, and the cluster id."""

from __future__ import annotations

from tests.differential.batches import batch
from tests.differential.catalogue.requests import produce
from tests.differential.entities import framed
from tests.differential.scenario import scenario
from tests.differential.session import REQUEST_MS_MAX, Session

SERVED = (0, 1, 2, 3, *range(17, 24), *range(29, 34), *range(35, 42), 44, 46, 50, 57, 60, 74, 75)


@scenario
def api_versions_in_every_version(s: Session) -> None:
    for version in range(5):
        s.call("api_versions", version, client_software_name="test", client_software_version="1.0")


@scenario
def api_version_ranges_of_what_is_served(s: Session) -> None:
    answer = s.ask("api_versions", 4, client_software_name="test", client_software_version="1.0")
    assert isinstance(answer, dict)
    ranges = {row["api_key"]: (row["min_version"], row["max_version"]) for row in answer["api_keys"]}
    for key in SERVED:
        s.note(f"range of API {key}", str(ranges.get(key)))


@scenario
def api_versions_too_new(s: Session) -> None:
    for version in (5, 99, 32767):
        got = s.exchange(framed(b"\0\x12" + version.to_bytes(2, "big") + b"\0\0\0\x07\xff\xff"))
        s.note(f"version {version}", got if isinstance(got, str) else {"correlation and error": got[:6].hex()})
    got = s.exchange(framed(b"\0\x12\xff\xff\0\0\0\x07\xff\xff"))
    s.note("version -1", got if isinstance(got, str) else {"correlation and error": got[:6].hex()})


@scenario
def api_versions_with_odd_client_names(s: Session) -> None:
    for name, version in (
        ("", "1"),
        ("a b", "1"),
        ("-x", "1"),
        ("x-", "1"),
        ("ok", ""),
        ("ok", "1.0-rc.1"),
        ("ok", "é"),
    ):
        answer = s.ask("api_versions", 3, client_software_name=name, client_software_version=version)
        s.note(f"name {name!r}, version {version!r}", answer if isinstance(answer, str) else answer["error_code"])


@scenario
def describe_cluster_in_every_version(s: Session) -> None:
    for version in range(3):
        s.call("describe_cluster", version)
        s.call("describe_cluster", version, "with operations", include_cluster_authorized_operations=True)
    for version in (1, 2):
        s.call("describe_cluster", version, "as controllers", endpoint_type=2)
        s.call("describe_cluster", version, "as endpoint type 3", endpoint_type=3)
    s.call("describe_cluster", 2, "with fenced brokers", include_fenced_brokers=True)


@scenario
def log_folders_in_every_version(s: Session) -> None:
    topic = s.topic(partitions=2)
    produce(s, topic, batch(3))
    for version in range(1, 6):
        s.call("describe_log_dirs", version, topics=[{"topic": topic, "partitions": [0, 1, 9]}])
    s.call("describe_log_dirs", 4, "of an unknown topic", topics=[{"topic": s.name("none"), "partitions": [0]}])
    s.call("describe_log_dirs", 4, "of no topic", topics=[])


@scenario
def nothing_is_being_reassigned(s: Session) -> None:
    topic = s.topic()
    s.call("list_partition_reassignments", 0, "of all topics", topics=None, timeout=REQUEST_MS_MAX)
    s.call(
        "list_partition_reassignments", 0, topics=[{"name": topic, "partition_indexes": [0, 7]}], timeout=REQUEST_MS_MAX
    )
    s.call("list_partition_reassignments", 0, "of an unknown topic",
           topics=[{"name": s.name("none"), "partition_indexes": [0]}], timeout=REQUEST_MS_MAX)  # fmt: skip


@scenario
def features_that_cannot_be_changed(s: Session) -> None:
    for version in range(3):
        for name, level, kind in (("no.such.feature", 1, 1), ("metadata.version", 99, 1), ("metadata.version", 1, 1)):
            update = {"feature": name, "max_version_level": level, "allow_downgrade": False, "upgrade_type": kind}
            s.call("update_features", version, f"{name} to {level}", timeout=REQUEST_MS_MAX, feature_updates=[update],
                   validate_only=False)  # fmt: skip
    s.call("update_features", 2, "nothing at all", timeout=REQUEST_MS_MAX, feature_updates=[])


@scenario
def the_version_of_the_quorum_goes_up_and_never_down(s: Session) -> None:
    for version in (1, 2):
        # Upgrade type 1 is an upgrade, 2 a safe and 3 an unsafe downgrade.
        for level, kind in ((1, 1), (1, 2), (2, 1), (0, 2), (0, 3), (-1, 1)):
            update = {
                "feature": "kraft.version", "max_version_level": level, "allow_downgrade": False, "upgrade_type": kind,
            }  # fmt: skip
            s.call("update_features", version, f"kraft.version to {level}, type {kind}", timeout=REQUEST_MS_MAX,
                   feature_updates=[update], validate_only=False)  # fmt: skip
    told = s.ask("api_versions", 4, client_software_name="a", client_software_version="1")
    if isinstance(told, dict):
        for part in ("supported_features", "finalized_features"):
            s.note(part, [feature for feature in told[part] if feature["name"] == "kraft.version"])


@scenario
def config_resources_are_listed(s: Session) -> None:
    topic = s.topic()
    for version, kinds in ((0, []), (1, [2]), (1, [4]), (1, [8]), (1, [16]), (1, [32]), (1, [3])):
        answer = s.ask("list_config_resources", version, resource_types=kinds)
        if isinstance(answer, dict):
            rows = [row for row in answer["config_resources"] if row.get("resource_name") in (topic, "1", "")]
            answer = {**answer, "config_resources": rows}
        s.note(f"version {version}, kinds {kinds}", answer)
