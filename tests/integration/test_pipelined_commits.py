"""Test of many pipelined commits on one connection: one sync serves them, and responses keep their order."""

from __future__ import annotations

from penstock.testing import Broker
from tests.differential.catalogue.group_requests import ready
from tests.differential.entities import read_response, request_frame
from tests.differential.session import Session

COUNT = 50


def test_concurrent_commits_are_all_kept_in_order() -> None:
    with Broker({"offsets.topic.num.partitions": "1", "flush.mode": "fsync"}) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        session = Session("pipelined", host, int(port))
        topic = session.topic()
        ready(session, "g")
        commits = [
            request_frame(
                "offset_commit",
                8,
                {
                    "group_id": "g",
                    "generation_id_or_member_epoch": -1,
                    "topics": [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": number}]}],
                },
                correlation_id=number,
            )
            for number in range(1, COUNT + 1)
        ]
        asked = {"groups": [{"group_id": "g", "topics": [{"name": topic, "partition_indexes": [0]}]}]}
        session.send(b"".join(commits) + request_frame("offset_fetch", 9, asked, correlation_id=COUNT + 1))
        for number in range(1, COUNT + 1):
            frame = session.receive()
            assert isinstance(frame, bytes), frame
            answer = read_response("offset_commit", 8, frame)
            assert answer["correlation_id"] == number
            assert answer["topics"][0]["partitions"][0]["error_code"] == "0 none"
        frame = session.receive()
        assert isinstance(frame, bytes), frame
        fetched = read_response("offset_fetch", 9, frame)
        assert fetched["groups"][0]["topics"][0]["partitions"][0]["committed_offset"] == COUNT
        session.hang_up()
