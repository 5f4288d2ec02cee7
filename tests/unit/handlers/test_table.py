from penstock.handlers.table import COLD
from penstock.wire.api import APIS


def test_every_api_that_is_advertised_has_a_handler_and_no_other() -> None:
    assert set(COLD) == {api.key for api in APIS.values() if not api.hot}


def test_a_handler_is_found_by_its_key_and_kept() -> None:
    assert COLD[18] is COLD[18]
    assert len(COLD) == len(list(COLD))
