"""Rules for topic names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import InvalidTopic
from penstock.model.topic import check_name, collision_key, is_internal, name_problem


@pytest.mark.parametrize("name", ["a", "orders.eu-west_1", "...", "_", "-", "A" * 249, "__anything"])
def test_a_legal_name_passes(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "a/b", "../x", "a\0", "ä", "a\n", "a:b", "a,b", "٣"])
def test_an_illegal_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidTopic, match="Topic name is invalid"):
        check_name(name)


@given(st.text())
def test_a_name_that_could_leave_its_folder_is_refused(name: str) -> None:
    if name_problem(name) is None:
        assert "/" not in name and "\0" not in name and name not in (".", "..") and len(name) <= 249


def test_names_that_differ_only_in_dots_and_underscores_collide() -> None:
    assert collision_key("a_b") == collision_key("a.b")
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert collision_key("ab") != collision_key("a.b")


def test_internal_topics_are_recognized() -> None:
    assert is_internal("__consumer_offsets") and is_internal("__cluster_metadata")
    assert not is_internal("__mine")
