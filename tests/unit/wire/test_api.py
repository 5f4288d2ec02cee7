"""The table of APIs is that of Kafka 4.3, restricted to the supported ones."""

from kio.index import load_request_schema, load_response_schema

from penstock.wire.api import APIS, ApiKey


def test_produce_is_advertised_from_zero_and_accepted_from_three() -> None:
    produce = APIS[ApiKey.PRODUCE]
    assert (produce.min_version, produce.max_version) == (0, 13)
    assert [version for version in range(-1, 16) if produce.accepts(version)] == list(range(3, 14))


def test_every_other_api_accepts_what_it_advertises() -> None:
    for api in APIS.values():
        if api.key != ApiKey.PRODUCE:
            accepted = [version for version in range(-1, 30) if api.accepts(version)]
            assert accepted == list(range(api.min_version, api.max_version + 1)), api.name


def test_flexible_versions_and_names_are_those_of_the_schemas() -> None:
    for api in APIS.values():
        for version in range(max(api.min_version, api.accepted_from), api.max_version + 1):
            request = load_request_schema(api.key, version)
            assert request.__flexible__ == api.is_flexible(version), (api.name, version)
            assert request.__name__ == f"{api.name}Request"
            assert load_response_schema(api.key, version).__name__ == f"{api.name}Response"


def test_only_the_most_frequent_apis_are_hot() -> None:
    assert {api.key for api in APIS.values() if api.hot} == {ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT}


def test_frequent_requests_have_a_hand_written_reader() -> None:
    assert {api.key for api in APIS.values() if api.hand_written} == {
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.HEARTBEAT,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
    }
