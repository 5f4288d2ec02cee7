import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.actions import json_text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_indented_json_has_the_same_value(value: object) -> None:
    assert json.loads(json_text.indent(json.dumps(value))) == value


def test_digits_survive_indentation() -> None:
    text = '{"id":9223372036854775807,"price":1.10,"big":123456789012345678901234567890}'
    shown = json_text.indent(text)
    assert '"id": 9223372036854775807' in shown
    assert '"price": 1.10' in shown
    assert '"big": 123456789012345678901234567890' in shown


def test_an_empty_object_stays_on_one_line() -> None:
    assert json_text.indent('{"a":{},"b":[]}') == '{\n  "a": {},\n  "b": []\n}'


def test_the_beginning_of_a_document_can_be_indented() -> None:
    assert json_text.indent('{"a":[1,{"b":"unfini') == '{\n  "a": [\n    1,\n    {\n      "b": "unfini'


def test_deeply_nested_brackets_do_not_grow_without_bounds() -> None:
    for text in ("{" * 100_000, "[" * 100_000, '{"a":' * 50_000, "[" * 50_000 + "]" * 50_000):
        assert len(json_text.indent(text)) < 50 * len(text)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_fields_are_those_of_the_object(value: dict[str, object]) -> None:
    found = json_text.fields(json.dumps(value))
    assert found is not None and found.keys() == value.keys()
    for name, text in found.items():
        expected = value[name]
        assert text == expected if isinstance(expected, str) else json.loads(text) == expected


@pytest.mark.parametrize("text", ["", "[1]", "12", "{", '{"a":}', '{"a":1} x', "[" * 100_000, '{"a":1}{"b":2}'])
def test_what_is_no_object_has_no_fields(text: str) -> None:
    assert json_text.fields(text) is None


def test_a_field_is_replaced_and_the_rest_stays_as_it_is() -> None:
    text = '{ "card" : "4111" , "amount":1.10, "card":[1,2] }'
    assert json_text.replace_at(text, {("card",)}, '"***"') == '{ "card" : "***" , "amount":1.10, "card":"***" }'


def test_an_escaped_name_is_found() -> None:
    assert json_text.replace_at(r'{"c\u0061rd": 1}', {("card",)}, "0") == r'{"c\u0061rd": 0}'


def test_a_star_stands_for_every_member() -> None:
    text = '{"items": [{"card": 1}, {"card": 2}, {"other": 3}], "more": {"card": 4}}'
    assert json_text.replace_at(text, {("items", "*", "card")}, "0") == (
        '{"items": [{"card": 0}, {"card": 0}, {"other": 3}], "more": {"card": 4}}'
    )


def test_a_value_inside_a_replaced_one_is_gone() -> None:
    assert json_text.replace_at('{"a": {"b": 1}}', {("a",), ("a", "b")}, "0") == '{"a": 0}'


@pytest.mark.parametrize(
    ("text", "expected"), [("{}", True), (" [1]", True), ("12", False), ("x", False), ("{", False)]
)
def test_only_objects_and_arrays_are_documents(text: str, expected: bool) -> None:
    assert json_text.is_document(text) is expected
