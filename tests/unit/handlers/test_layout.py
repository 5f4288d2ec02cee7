"""Every handler has tests under its own name."""

from pathlib import Path

import penstock.handlers

TESTED_ELSEWHERE = {
    "__init__": "is empty",
    "cluster_view": "reads the image for test_metadata, test_describe_cluster and test_list_offsets",
    "context": "declares fields",
    "entities": "names types for the type checker",
    "fetch_errors": "is what test_produce and test_fetch answer with where a partition is elsewhere",
    "local": "passes a request to its handler; test_init_producer_id goes through it",
    "quorum_checks": "is shared by the tests of the quorum's requests, as check_refusals in quorum.py",
    "raft_voters": "copies fields for test_add_raft_voter and test_update_raft_voter",
    "reply": "holds a reply for the session, which tests/unit/server tests",
    "shown": "waits for test_list_offsets and test_delete_records",
}


def test_every_handler_has_tests_by_its_name() -> None:
    handlers = {path.stem for folder in penstock.handlers.__path__ for path in Path(folder).glob("*.py")}
    tested = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}
    assert handlers - tested - TESTED_ELSEWHERE.keys() == set(), "write tests/unit/handlers/test_<name>.py"
    assert TESTED_ELSEWHERE.keys() <= handlers - tested, "remove what has tests now, or is gone"
