"""kafkajs (JavaScript) and franz-go (Go) over TLS and SASL: each mechanism, client certificates, wrong credentials."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.security.secured import MECHANISMS, PASSWORD, PROTOCOLS, USER, Secured
from tests.support.foreign import go_program, node_program

HERE = Path(__file__).parent
REFUSED = 3
"""The exit code of a program whose login is refused."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

PROGRAMS: dict[str, Callable[[], list[str]]] = {
    "kafkajs": lambda: node_program(HERE / "kafkajs", "kafkajs-security"),
    "franz-go": lambda: go_program(HERE / "franz_go", "franz-go-security"),
}


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> list[str]:
    return PROGRAMS[request.param]()


def run(program: list[str], secured: Secured, protocol: str, topic: str, **settings: object) -> tuple[int, str]:
    """Return the exit code and what the program printed."""
    given = {"bootstrap": f"localhost:{secured.ports[protocol]}", "topic": topic, "retries": 5, "user": USER}
    if protocol.endswith("SSL"):
        given["authority"] = str(secured.certificates.authority)
    text = json.dumps(given | settings)
    done = subprocess.run(program, input=text, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_produces_and_consumes(program: list[str], secured: Secured, protocol: str, mechanism: str) -> None:
    topic = f"{Path(program[-1]).name}-{protocol}-{mechanism}".lower()
    token = secured.tokens.issue()
    code, text = run(program, secured, protocol, topic, mechanism=mechanism, password=PASSWORD, token=token)
    assert (code, text) == (0, "ok\n")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_credentials_are_refused(program: list[str], secured: Secured, mechanism: str) -> None:
    token = secured.tokens.issue(symmetric=True)
    settings = {"mechanism": mechanism, "password": "guessed", "token": token, "retries": 0}
    code, text = run(program, secured, "SASL_SSL", "never-created", **settings)
    assert code == REFUSED, text


def test_a_certificate_is_a_login(program: list[str], secured: Secured) -> None:
    topic = f"{Path(program[-1]).name}-certificate"
    code, text = run(program, secured, "SSL", topic, certificate=str(secured.certificates.client))
    assert (code, text) == (0, "ok\n")
    for wrong in ("", str(secured.certificates.stranger)):
        code, text = run(program, secured, "SSL", "never-created", certificate=wrong, retries=0)
        assert code == REFUSED, text
