"""penstock profile, and which cluster a command connects to."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from penstock.actions.connection import Connection
from penstock.actions.errors import ActionError
from penstock.actions.profiles import Profile, Profiles
from penstock.cli.connection_options import Given, add_to, choose
from penstock.cli.main import app

PROD = Profile("prod", "prod:1", None, {"security.protocol": "SSL"})
KNOWN = Profiles({"prod": PROD, "test": Profile("test", "test:1")}, current="test")


def line(**values: object) -> Given:
    """Return options of the command line."""
    return Given(**values, on_command_line=frozenset(values))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "bootstrap", "is_secured"),
    [
        (Given(), "test:1", False),
        (Given(profile="prod"), "prod:1", True),
        (Given(bootstrap="env:1"), "env:1", False),
        (Given(bootstrap="env:1", profile="prod"), "env:1", False),
        (line(bootstrap="line:1"), "line:1", False),
        (line(profile="prod"), "prod:1", True),
        (line(profile="prod")._replace(bootstrap="env:1"), "prod:1", True),
        (line(profile="prod", bootstrap="line:1"), "line:1", True),
        (line(client_property=("security.protocol=PLAINTEXT",), profile="prod"), "prod:1", False),
    ],
)
def test_the_address_and_the_properties_belong_together(given: Given, bootstrap: str, is_secured: bool) -> None:
    chosen = choose(given, lambda: KNOWN)
    assert chosen.bootstrap == bootstrap
    assert (chosen.properties.get("security.protocol") == "SSL") is is_secured


def test_properties_come_from_the_line_then_the_profile_then_its_file(tmp_path: Path) -> None:
    file, other = tmp_path / "prod.properties", tmp_path / "other.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.username=file\nsasl.password=file\n")
    other.write_text("sasl.username=other\n")
    profiles = Profiles({"a": Profile("a", "a:1", file, {"sasl.username": "profile"})}, "a")
    chosen = choose(line(client_property=("sasl.password=line",)), lambda: profiles)
    assert chosen.properties == {
        "security.protocol": "SASL_SSL", "sasl.username": "profile", "sasl.password": "line",
    }  # fmt: skip
    assert choose(Given(command_config=other), lambda: profiles).properties["security.protocol"] == "SASL_SSL"
    assert "security.protocol" not in choose(line(command_config=other), lambda: profiles).properties


def test_a_pipeline_keeps_its_address_unless_a_profile_is_named() -> None:
    assert choose(Given(), lambda: KNOWN, uses_current=False).bootstrap is None
    assert choose(Given(profile="prod"), lambda: KNOWN, uses_current=False).bootstrap == "prod:1"


def test_an_unknown_profile_is_answered_with_a_similar_one() -> None:
    with pytest.raises(ActionError, match="Profile 'prd' does not exist") as found:
        choose(Given(profile="prd"), lambda: KNOWN)
    assert found.value.suggestion == "Did you mean 'prod'?"


def test_the_profiles_are_not_read_if_an_address_is_given() -> None:
    def fail() -> Profiles:
        raise AssertionError

    assert choose(line(bootstrap="a:1"), fail).bootstrap == "a:1"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("PENSTOCK_BOOTSTRAP", "PENSTOCK_PROFILE", "PENSTOCK_COMMAND_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["profile", *words], catch_exceptions=False)


def done(*words: str) -> str:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.output


def test_profiles_are_set_shown_used_and_removed(home: Path) -> None:
    file = home / "client.properties"
    file.write_text("security.protocol=SSL\n")
    assert "created profile prod" in done("set", "prod", "-b", "a:1,b:2", "--command-config", str(file))
    assert "changed profile prod" in done("set", "prod", "-X", "sasl.password=x", "-X", "linger.ms=5")
    assert (home / "penstock" / "config.toml").stat().st_mode & 0o777 == 0o600
    shown = done("show", "prod")
    assert "a:1,b:2" in shown and "client.properties" in shown
    assert "(hidden)" in shown and "linger.ms" in shown
    done("set", "prod", "-X", "linger.ms=")
    assert "linger.ms" not in done("show", "prod")
    assert done("use", "prod") == "using profile prod\n"
    assert "prod,yes" in done("list", "--format", "csv")
    assert done("use", "--none") == "using no profile\n"
    assert "prod,no" in done("list", "--format", "csv")
    done("remove", "prod")
    assert "prod" not in done("list")


def test_a_command_uses_the_current_profile(home: Path) -> None:
    seen: list[Connection] = []
    tool = typer.Typer()

    @tool.command()
    def look(connection: Connection) -> None:
        seen.append(connection)

    add_to(tool)
    done("set", "prod", "-b", "prod:1", "-X", "security.protocol=SSL")
    done("use", "prod")
    runner = CliRunner()
    assert runner.invoke(tool, []).exit_code == 0
    assert runner.invoke(tool, ["-b", "line:1"]).exit_code == 0
    assert runner.invoke(tool, [], env={"PENSTOCK_BOOTSTRAP": "env:1"}).exit_code == 0
    assert runner.invoke(tool, ["--profile", "prod"], env={"PENSTOCK_BOOTSTRAP": "env:1"}).exit_code == 0
    prod = Connection("prod:1", {"security.protocol": "SSL"})
    assert seen == [prod, Connection("line:1"), Connection("env:1"), prod]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["set", "x"], "Nothing to set"),
        (["set", "x", "-b", "a:b"], "Invalid address"),
        (["set", "x", "--command-config", "/nowhere/file"], "Cannot read /nowhere/file"),
        (["set", "x", "-X", "group.id=a"], "Cannot set client property"),
        (["use"], "Pass the name of a profile, or --none"),
        (["use", "x"], "Profile 'x' does not exist"),
        (["remove", "x"], "Profile 'x' does not exist"),
        (["show"], "No profile is in use"),
    ],
)
def test_what_cannot_be_done_is_explained(home: Path, words: list[str], message: str) -> None:
    with pytest.raises(Exception, match=message):
        run(*words)
