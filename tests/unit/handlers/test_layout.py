"""Every handler has tests under its own name."""

from pathlib import Path

import penstock.handlers

TESTED_ELSEWHERE = {
    "support/cluster_view": "reads the image for test_metadata, test_describe_cluster and test_list_offsets",
    "support/config_rights": "checks the rights of the APIs about settings, which tests/security tests by row",
    "support/context": "declares fields",
    "support/entities": "names types for the type checker",
    "support/fetch_rights": "decides for test_fetch, and by row in tests/security",
    "support/metadata_rights": "filters the topics of Metadata, which tests/security tests by row",
    "support/partition_errors": "builds the errors of test_produce and test_fetch for partitions on other nodes",
    "support/quorum_checks": "is shared by the tests of the quorum's requests, as check_refusals in quorum.py",
    "support/raft_voters": "copies fields for test_add_raft_voter and test_update_raft_voter",
    "support/reply": "holds a reply for the session, which tests/unit/server tests",
    "support/share_deletion": "deletes state for test_delete_share_group_offsets and test_delete_groups",
    "support/token_requests": "checks clients for the four handlers of delegation tokens",
    "support/visibility": "waits for test_list_offsets and test_delete_records",
}


def test_every_handler_has_tests_by_its_name() -> None:
    handlers = names(*map(Path, penstock.handlers.__path__), prefix="") - {"__init__", "support/__init__"}
    tested = names(Path(__file__).parent, prefix="test_")
    assert handlers - tested - TESTED_ELSEWHERE.keys() == set(), "add tests/unit/handlers/test_<name>.py"
    assert TESTED_ELSEWHERE.keys() <= handlers - tested, "remove entries that have tests or do not exist"


def names(*folders: Path, prefix: str) -> set[str]:
    return {
        (path.relative_to(folder).parent / path.stem.removeprefix(prefix)).as_posix()
        for folder in folders
        for path in folder.rglob(f"{prefix}*.py")
    }
