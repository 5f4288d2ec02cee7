from pathlib import Path

from penstock.cli.start import build_overrides


def overrides(
    file: dict[str, str] | None = None,
    pairs: dict[str, str] | None = None,
    *,
    data: Path | None = None,
    host: str | None = None,
    port: int | None = None,
    node_id: int | None = None,
) -> dict[str, str]:
    return build_overrides(file or {}, pairs or {}, data=data, host=host, port=port, node_id=node_id)


def test_the_defaults_are_localhost_9092_and_data() -> None:
    assert overrides() == {"log.dirs": f"{Path.cwd()}/data", "listeners": "PLAINTEXT://localhost:9092"}


def test_the_file_applies_without_options() -> None:
    file = {"listeners": "PLAINTEXT://:9095", "log.dirs": "/srv/log", "node.id": "4"}
    assert overrides(file) == {}


def test_the_data_folder_is_made_absolute() -> None:
    expected = f"{Path.cwd()}/here"
    assert overrides(data=Path("here"))["log.dirs"] == expected
    assert overrides({"log.dirs": "here"})["log.dirs"] == expected
    assert overrides(pairs={"log.dir": "./here"})["log.dirs"] == expected


def test_options_override_set_and_set_overrides_the_file() -> None:
    file = {"listeners": "PLAINTEXT://:9095", "node.id": "4"}
    pairs = {"node.id": "5", "log.dirs": "/a"}
    assert overrides(file, pairs, data=Path("/b"), port=0, node_id=6) == {
        "node.id": "6",
        "log.dirs": "/b",
        "listeners": "PLAINTEXT://localhost:0",
    }
