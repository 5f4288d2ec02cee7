from typing import Any

import pytest

from penstock_console.settings import CHANGES, CONTENTS, Policy
from tests.support.console import settings_for


def policy(*, login: bool = False, **more: Any) -> Policy:
    settings = settings_for(login=login, **more)
    return settings.policy(settings.clusters["local"])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.9.9.9"])
def test_everything_is_permitted_on_the_loopback_address(host: str) -> None:
    assert policy(host=host) == Policy(None, True)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "console.example"])
def test_another_address_without_a_login_is_read_only_and_hides_contents(host: str) -> None:
    found = policy(host=host)
    assert found.read_only_reason is not None and host in found.read_only_reason
    assert not found.contents


def test_what_is_allowed_is_permitted_on_any_address() -> None:
    assert policy(host="0.0.0.0", allow=frozenset({CONTENTS})).contents
    assert policy(host="0.0.0.0", allow=frozenset({CONTENTS})).read_only_reason is not None
    assert policy(host="0.0.0.0", allow=frozenset({CHANGES})) == Policy(None, False)


def test_a_login_permits_what_the_acls_permit() -> None:
    assert policy(host="0.0.0.0", login=True) == Policy(None, True)


def test_read_only_is_stronger_than_anything_else() -> None:
    assert policy(read_only=True, allow=frozenset({CHANGES}), login=True).read_only_reason
