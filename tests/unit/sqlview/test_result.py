from penstock.sqlview.result import unique_names


def test_repeated_names_of_columns_are_numbered() -> None:
    assert unique_names(["offset", "key", "offset", "offset"]) == ["offset", "key", "offset_1", "offset_2"]


def test_a_number_does_not_make_a_name_that_another_column_has() -> None:
    assert unique_names(["a", "a", "a_1"]) == ["a", "a_2", "a_1"]
