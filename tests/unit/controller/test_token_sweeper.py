"""The removal of expired tokens with a manual clock."""

from penstock.config.settings import BrokerSettings
from penstock.controller.controller import Controller
from penstock.controller.token_sweeper import TokenSweeper
from penstock.metadata.image import Image
from penstock.model.errors import StorageError
from penstock.security.principal import user
from penstock.security.tokens import DelegationToken
from tests.support.stepped_clock import SteppedClock, settle
from tests.unit.controller.test_broker_monitor import InstantQuorum

SETTINGS = BrokerSettings({"delegation.token.expiry.check.interval.ms": "10000"})


def quorum_with(clock: SteppedClock, *lifetimes_s: int) -> InstantQuorum:
    now = clock.wall_ms()
    owner = user("alice")
    tokens = {
        str(seconds): DelegationToken(str(seconds), owner, owner, (), now, now + 10**9, now + seconds * 1000)
        for seconds in lifetimes_s
    }
    return InstantQuorum(Image(tokens=tokens))


async def test_expired_tokens_are_removed_periodically() -> None:
    clock = SteppedClock()
    quorum = quorum_with(clock, -1, 5, 15)
    sweeper = TokenSweeper(Controller(quorum), clock, lambda: SETTINGS)
    sweeper.start()
    await settle()
    assert quorum.image.tokens.keys() == {"5", "15"}
    await clock.advance(10.1)
    await settle()
    assert quorum.image.tokens.keys() == {"15"}
    sweeper.stop()
    await clock.advance(20)
    await settle()
    assert quorum.image.tokens.keys() == {"15"}


async def test_a_failed_removal_is_repeated() -> None:
    clock = SteppedClock()
    quorum = quorum_with(clock, -1)
    commit = quorum.commit

    async def refuse(*parts: object) -> None:
        raise StorageError("full")

    quorum.commit = refuse  # type: ignore[method-assign]
    sweeper = TokenSweeper(Controller(quorum), clock, lambda: SETTINGS)
    sweeper.start()
    await settle()
    assert quorum.image.tokens
    quorum.commit = commit  # type: ignore[method-assign]
    await clock.advance(10.1)
    await settle()
    assert not quorum.image.tokens
    sweeper.stop()
