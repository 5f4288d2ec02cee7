from pathlib import Path

from penstock.actions.cluster.config_files import NodePlan
from penstock.cli.cluster.restart import REQUEST_FILE, answer_request, read_request, restart_order


def nodes(*ids: int) -> list[NodePlan]:
    return [NodePlan(each, "localhost", 9000 + each, None, Path(f"node-{each}"), Path()) for each in ids]


def test_the_active_controller_is_restarted_last() -> None:
    assert [node.node_id for node in restart_order(nodes(1, 2, 3), 2)] == [1, 3, 2]
    assert [node.node_id for node in restart_order(nodes(2, 1), -1)] == [1, 2]


def test_a_request_is_answered_once(tmp_path: Path) -> None:
    assert read_request(tmp_path) is None
    (tmp_path / REQUEST_FILE).write_text("2")
    assert read_request(tmp_path) == 2
    answer_request(tmp_path, problem="its port is in use.")
    assert read_request(tmp_path) is None
    assert (tmp_path / REQUEST_FILE).read_text() == "failed: its port is in use."
    answer_request(tmp_path, problem=None)
    answer_request(tmp_path, problem=None)
    assert list(tmp_path.iterdir()) == []
