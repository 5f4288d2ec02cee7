import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.actions.errors import ActionError
from penstock.actions.profiles import Profile, Profiles, config_path, is_secret, load, parse, render, save

FILE = Path("/home/ann/.config/penstock/config.toml")
# TOML has no escape for half of a surrogate pair.
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = words.filter(bool)


@given(
    profiles=st.dictionaries(
        names, st.tuples(st.none() | words, st.none() | names, st.dictionaries(names, words, max_size=3)), max_size=3
    )
)
def test_what_is_written_is_read_back(
    profiles: dict[str, tuple[str | None, str | None, dict[str, str]]],
) -> None:
    given_profiles = Profiles({
        name: Profile(name, bootstrap, None if file is None else Path("/etc") / file.replace("/", "_"), properties)
        for name, (bootstrap, file, properties) in profiles.items()
    }, next(iter(profiles), None))  # fmt: skip
    assert parse(render(given_profiles), FILE) == given_profiles


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("current = ", "Invalid configuration file"),
        ("curent = 'a'", "unknown key 'curent'"),
        ("current = 'a'", "'current' names the profile 'a', which does not exist"),
        ("[profiles.a]\nbootstap = 'x'", "unknown key 'bootstap' in profile 'a'"),
        ("[profiles.a]\nbootstrap = 1", "must be strings"),
        ("[profiles.a]\nproperties = 'x'", "must be strings"),
        ("[profiles.a.properties]\n'linger.ms' = 5", "must be strings"),
        ("profiles = 1", "'profiles' must be a table"),
        ("profiles.a = 1", "profile 'a' must be a table"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(ActionError, match=message):
        parse(text, FILE)


def test_a_relative_file_of_properties_is_next_to_the_configuration() -> None:
    found = parse("[profiles.prod]\ncommand-config = 'prod.properties'", FILE)
    assert found.get("prod").command_config == FILE.parent / "prod.properties"


def test_the_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.toml"
    assert load(path) == Profiles()
    profiles = Profiles({"prod": Profile("prod", "a:1", None, {"sasl.password": "x"})}, "prod")
    save(path, profiles)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load(path) == profiles
    path.chmod(0o640)
    with pytest.raises(ActionError, match=r"others may read it\. Run 'chmod 600"):
        load(path)
    save(path, Profiles({"prod": Profile("prod", "a:1")}))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["config.toml"]
    path.chmod(0o644)
    assert load(path).get("prod").bootstrap == "a:1"


def test_the_file_follows_the_xdg_rules() -> None:
    assert config_path({"XDG_CONFIG_HOME": "/x", "HOME": "/home/ann"}) == Path("/x/penstock/config.toml")
    assert config_path({"XDG_CONFIG_HOME": "relative", "HOME": "/home/ann"}) == FILE
    assert config_path({"HOME": "/home/ann"}) == FILE


def test_removing_the_current_profile_leaves_none_in_use() -> None:
    profiles = Profiles({"a": Profile("a"), "b": Profile("b")}, "a")
    assert profiles.without("a").current is None
    assert profiles.without("b").current == "a"
    assert profiles.using(None).current is None
    with pytest.raises(ActionError, match="Profile 'c' does not exist"):
        profiles.using("c")


@pytest.mark.parametrize("name", ["sasl.password", "ssl.key.password", "sasl.jaas.config", "ssl.key.pem"])
def test_passwords_and_keys_are_secrets(name: str) -> None:
    assert is_secret(name) and not is_secret("security.protocol")
