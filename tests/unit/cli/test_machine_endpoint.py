import asyncio
import json

from penstock.cli.cluster.machine_endpoint import MachineEndpoint, merge_metrics, verdict
from penstock.ports.instruments import HttpAnswer

PAGE = """# HELP requests_total Requests. [requests]
# TYPE requests_total counter
requests_total{api="Fetch",text="a}b"} 3
requests_total{api="Produce"} 4
# TYPE up gauge
up 1
"""


def body_of(answer: HttpAnswer) -> str:
    async def read() -> str:
        return b"".join([piece async for piece in answer.body]).decode()

    return asyncio.run(read())


def test_samples_of_all_cores_have_the_label_core_and_one_head() -> None:
    merged = merge_metrics({0: PAGE, 1: PAGE, 2: None}).splitlines()
    assert merged[2:] == [
        'penstock_core_up{core="0"} 1',
        'penstock_core_up{core="1"} 1',
        'penstock_core_up{core="2"} 0',
        "# HELP requests_total Requests. [requests]",
        "# TYPE requests_total counter",
        'requests_total{core="0",api="Fetch",text="a}b"} 3',
        'requests_total{core="0",api="Produce"} 4',
        'requests_total{core="1",api="Fetch",text="a}b"} 3',
        'requests_total{core="1",api="Produce"} 4',
        "# TYPE up gauge",
        'up{core="0"} 1',
        'up{core="1"} 1',
    ]


def test_a_machine_is_healthy_if_all_its_cores_are() -> None:
    fine = (200, '{"status": "ok"}')
    assert verdict({0: fine, 1: fine}).status == 200
    failed = verdict({0: fine, 1: (503, '{"status": "failed", "reason": "the broker is fenced"}'), 2: None})
    assert failed.status == 503
    reason = "core 1: the broker is fenced; core 2: it does not answer"
    assert json.loads(body_of(failed)) == {"status": "failed", "reason": reason}


def test_warnings_of_cores_are_kept() -> None:
    answer = verdict({0: (200, '{"status": "ok", "warnings": ["the disk is full"]}')})
    assert (answer.status, json.loads(body_of(answer))["warnings"]) == (200, ["core 0: the disk is full"])


def test_a_core_without_a_socket_does_not_answer() -> None:
    answer = asyncio.run(MachineEndpoint({0: "/nonexistent/0"}).answer("/health"))
    assert answer.status == 503
    assert asyncio.run(MachineEndpoint({}).answer("/nothing")).status == 404
