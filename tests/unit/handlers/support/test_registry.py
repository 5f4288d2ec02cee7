import inspect

import pytest

from penstock.handlers.support.registry import COLD
from penstock.wire.api import APIS, Api, ApiKey


@pytest.mark.parametrize("api", [api for api in APIS.values() if not api.hot], ids=lambda api: api.name)
def test_every_declared_api_has_a_handler(api: Api) -> None:
    assert inspect.iscoroutinefunction(COLD[api.key])


def test_a_handler_is_found_by_its_key_and_cached() -> None:
    assert COLD[ApiKey.API_VERSIONS] is COLD[ApiKey.API_VERSIONS]


def test_a_row_names_the_module_of_its_handler() -> None:
    assert APIS[ApiKey.ALTER_PARTITION_REASSIGNMENTS].module == "alter_partition_reassignments"
    assert APIS[ApiKey.OFFSET_FOR_LEADER_EPOCH].module == "offset_for_leader_epoch"


def test_an_api_is_either_forwarded_or_sent_between_nodes() -> None:
    assert not [api.name for api in APIS.values() if api.forwarded and api.between_nodes]
