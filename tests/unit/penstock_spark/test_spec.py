"""The spec of a pipeline: its defaults, its overrides, and what an error tells its author to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock_client.errors import PenstockClientError
from penstock_spark.pipelines.spec import load_spec

SPEC = """
name: test
storage: storage
libraries:
  - glob: {include: flows/**}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "spark-pipeline.yml").write_text(SPEC)
    return tmp_path


def test_a_spec_has_defaults_for_what_it_does_not_say(folder: Path) -> None:
    spec = load_spec(folder)
    assert (spec.name, spec.bootstrap, spec.provider, spec.trigger) == ("test", "localhost:9092", "python", "1 second")
    assert (spec.catalog, spec.database, spec.refresh_s, spec.is_jvm) == (None, None, 30.0, False)
    assert spec.globs == ("flows/**/*",)
    assert spec.storage == f"file://{folder}/storage"
    assert spec.checkpoints("f") == f"file://{folder}/storage/checkpoints/f"


def test_the_settings_of_a_spec_are_split_by_who_uses_them(folder: Path) -> None:
    settings = {
        "penstock.bootstrap.servers": "broker:9092",
        "penstock.refresh": "2.5",
        "penstock.kafka.security.protocol": "SASL_SSL",
        "penstock.orders.topic": "orders",
        "spark.master": "local[1]",
    }
    spec = load_spec(folder / "spark-pipeline.yml", settings)
    assert (spec.bootstrap, spec.refresh_s) == ("broker:9092", 2.5)
    assert spec.client == {"security.protocol": "SASL_SSL"}
    assert spec.spark["spark.master"] == "local[1]" and spec.spark["penstock.orders.topic"] == "orders"


def test_settings_of_the_command_line_override_those_of_the_file(folder: Path) -> None:
    (folder / "spark-pipeline.yml").write_text(SPEC + 'configuration: {spark.a: "1", spark.b: "2"}\n')
    assert load_spec(folder, {"spark.b": "3"}).spark == {"spark.a": "1", "spark.b": "3"}


def test_options_of_the_command_line_replace_storage_broker_and_provider(folder: Path) -> None:
    spec = load_spec(folder)
    assert spec.with_changes(storage=None, bootstrap=None, provider=None) == spec
    changed = spec.with_changes(storage="s3://bucket/p/", bootstrap="other:1", provider="jvm")
    assert (changed.storage, changed.bootstrap, changed.is_jvm) == ("s3://bucket/p", "other:1", True)
    assert spec.with_changes(storage="file:/tmp/p/", bootstrap=None, provider=None).storage == "file:/tmp/p"
    with pytest.raises(PenstockClientError, match=r"unknown provider 'jvn'.*Did you mean 'jvm'"):
        spec.with_changes(storage=None, bootstrap=None, provider="jvn")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("name: test", "nmae: test"), "unknown field 'nmae'. Did you mean 'name'"),
        (("name: test", "name: 3"), "the field 'name' is missing"),
        (("storage: storage", ""), "the field 'storage' is missing"),
        (("libraries:", "configuration: {penstock.provider: java}\nlibraries:"), "unknown provider 'java'"),
        (("libraries:", "configuration: {penstock.providr: jvm}\nlibraries:"), "Did you mean 'penstock.provider'"),
        (("libraries:", "configuration: {spark.x: 3}\nlibraries:"), 'must be a string: write spark.x: "3"'),
        (("libraries:", "configuration: [spark.x]\nlibraries:"), "must be a list of 'name: value' lines"),
        (("libraries:", "configuration: {penstock.refresh: often}\nlibraries:"), "must be a number of seconds"),
        (("- glob: {include: flows/**}", "- flows"), "libraries must look like"),
        (("- glob: {include: flows/**}", "flows/**"), "libraries must look like"),
        (("name: test", "name: [test"), "is not valid YAML"),
        ((SPEC, ""), "is empty: a pipeline needs name, storage and libraries"),
    ],
)
def test_an_error_in_a_spec_says_what_to_change(folder: Path, change: tuple[str, str], expected: str) -> None:
    (folder / "spark-pipeline.yml").write_text(SPEC.replace(*change))
    for settings in ({}, {"spark.y": "1"}):
        with pytest.raises(PenstockClientError, match=expected):
            load_spec(folder, settings)


def test_a_folder_without_a_spec_is_not_a_pipeline(tmp_path: Path) -> None:
    with pytest.raises(PenstockClientError, match=r"has no spark-pipeline.yml"):
        load_spec(tmp_path)
    with pytest.raises(PenstockClientError, match="missing does not exist"):
        load_spec(tmp_path / "missing")


def test_a_folder_with_two_specs_is_ambiguous(folder: Path) -> None:
    (folder / "spark-pipeline.yaml").write_text(SPEC)
    with pytest.raises(PenstockClientError, match=r"has both spark-pipeline.yml and spark-pipeline.yaml: delete one"):
        load_spec(folder)
