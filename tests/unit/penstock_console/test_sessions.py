import pytest

from penstock.actions.connection import Connection
from penstock_console.clusters import ClusterAccess
from penstock_console.errors import ApiError
from penstock_console.sessions import IDLE_S, SESSIONS_MAX, Sessions
from penstock_console.settings import ClusterSettings, Policy


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def access(name: str = "local") -> ClusterAccess:
    settings = ClusterSettings(name=name, connection=Connection("127.0.0.1:1"), requires_login=True)
    return ClusterAccess(settings, settings.connection, Policy(None, True), {}, user="alice")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> Sessions:
    return Sessions(clock)


def test_a_session_is_found_by_its_key(sessions: Sessions) -> None:
    made = sessions.add(None, access())
    assert sessions.find(made.key) is made
    assert sessions.find("other") is None
    assert sessions.find(None) is None


def test_a_login_changes_the_key_and_the_token(sessions: Sessions) -> None:
    first = sessions.add(None, access("a"))
    second = sessions.add(first, access("b"))
    assert sessions.find(first.key) is None
    assert first.token != second.token
    assert second.access.keys() == {"a", "b"}


def test_a_session_ends_when_it_is_idle(sessions: Sessions, clock: Clock) -> None:
    made = sessions.add(None, access())
    clock.now += IDLE_S - 1
    assert sessions.find(made.key) is made
    clock.now += IDLE_S - 1
    assert sessions.find(made.key) is made
    clock.now += IDLE_S + 1
    assert sessions.find(made.key) is None
    assert made.access["local"].is_closed


def test_a_logout_forgets_the_credentials(sessions: Sessions) -> None:
    made = sessions.add(None, access())
    sessions.remove(made)
    assert sessions.find(made.key) is None
    assert made.access["local"].is_closed


def test_there_is_a_limit_of_logins(sessions: Sessions) -> None:
    for _ in range(SESSIONS_MAX):
        sessions.add(None, access())
    with pytest.raises(ApiError) as raised:
        sessions.add(None, access())
    assert raised.value.status == 429


def test_each_session_has_its_own_token(sessions: Sessions) -> None:
    made = sessions.add(None, access())
    assert sessions.is_token(made, made.token)
    assert not sessions.is_token(made, sessions.token(None))
    assert not sessions.is_token(None, made.token)
