"""Profiles: named clusters in the user's configuration file, with the client properties for connecting to them.

The file is `penstock/config.toml` in `$XDG_CONFIG_HOME`, by default `~/.config`. It may contain passwords: it is
written with mode 0600, and a file with passwords that others can read is refused.
"""

import contextlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from penstock.actions.errors import ActionError

UNKNOWN_PROFILE: Final = "UNKNOWN_PROFILE"
_SECRET_WORDS: Final = ("password", "secret", "jaas", "token", "ssl.key.pem", "ssl.keystore.key")
_KEYS: Final = ("bootstrap", "command-config", "properties")


@dataclass(frozen=True, slots=True)
class Profile:
    """A cluster: its addresses, a file of client properties, and single properties, which override the file."""

    name: str
    bootstrap: str | None = None
    command_config: Path | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Profiles:
    """The content of the configuration file."""

    by_name: Mapping[str, Profile] = field(default_factory=dict)
    current: str | None = None

    def get(self, name: str) -> Profile:
        if name not in self.by_name:
            raise ActionError(f"Profile '{name}' does not exist.", code=UNKNOWN_PROFILE, about=name)
        return self.by_name[name]

    def with_profile(self, profile: Profile) -> "Profiles":
        return replace(self, by_name={**self.by_name, profile.name: profile})

    def without(self, name: str) -> "Profiles":
        self.get(name)
        left = {key: value for key, value in self.by_name.items() if key != name}
        return Profiles(left, None if self.current == name else self.current)

    def using(self, name: str | None) -> "Profiles":
        if name is not None:
            self.get(name)
        return replace(self, current=name)


def is_secret(name: str) -> bool:
    """Return whether the value of a client property must not be shown."""
    return any(word in name for word in _SECRET_WORDS)


def config_path(environment: Mapping[str, str]) -> Path:
    """Return the path of the configuration file. XDG ignores a relative folder."""
    folder = environment.get("XDG_CONFIG_HOME", "")
    base = Path(folder) if folder.startswith("/") else Path(environment.get("HOME") or Path.home()) / ".config"
    return base / "penstock" / "config.toml"


def load(path: Path) -> Profiles:
    """Read the profiles; there are none if there is no file."""
    try:
        text = path.read_text(encoding="utf-8")
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return Profiles()
    except (OSError, UnicodeDecodeError) as error:
        raise ActionError(f"Cannot read {path}: {getattr(error, 'strerror', None) or error}. Check the file.") from None
    profiles = parse(text, path)
    if mode & 0o077 and any(is_secret(name) for each in profiles.by_name.values() for name in each.properties):
        raise ActionError(f"Cannot use {path}: it contains passwords and others may read it. Run 'chmod 600 {path}'.")
    return profiles


def parse(text: str, path: Path) -> Profiles:
    """Parse the content of the file at a path."""
    import tomllib  # commands without a configuration file start faster without it

    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _invalid(path, str(error)) from None
    tables = content.pop("profiles", {})
    current = content.pop("current", None)
    if content:
        raise _invalid(path, f"unknown key '{next(iter(content))}'; expected 'current' and 'profiles'")
    if not isinstance(tables, dict) or not isinstance(current, str | None):
        raise _invalid(path, "'profiles' must be a table and 'current' the name of one")
    profiles = {name: _parse_profile(name, table, path) for name, table in tables.items()}
    if current is not None and current not in profiles:
        raise _invalid(path, f"'current' names the profile '{current}', which does not exist")
    return Profiles(profiles, current)


def _parse_profile(name: str, table: Any, path: Path) -> Profile:
    if not isinstance(table, dict):
        raise _invalid(path, f"profile '{name}' must be a table")
    unknown = [key for key in table if key not in _KEYS]
    if unknown:
        raise _invalid(path, f"unknown key '{unknown[0]}' in profile '{name}'; expected {', '.join(_KEYS)}")
    properties = table.get("properties", {})
    texts = [table.get("bootstrap", ""), table.get("command-config", ""), *getattr(properties, "values", list)()]
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in texts):
        raise _invalid(path, f"the values of profile '{name}' must be strings")
    file = table.get("command-config")
    # Relative to the configuration file, because a command may run in any folder.
    command_config = None if file is None else path.parent / Path(file).expanduser()
    return Profile(name, table.get("bootstrap"), command_config, properties)


def render(profiles: Profiles) -> str:
    """Return the content of the file."""
    lines = ["# The profiles of the penstock command, which rewrites this file when it changes one."]
    if profiles.current is not None:
        lines.append(f"current = {_quoted(profiles.current)}")
    for name, profile in sorted(profiles.by_name.items()):
        lines += ["", f"[profiles.{_quoted(name)}]"]
        if profile.bootstrap is not None:
            lines.append(f"bootstrap = {_quoted(profile.bootstrap)}")
        if profile.command_config is not None:
            lines.append(f"command-config = {_quoted(str(profile.command_config))}")
        if profile.properties:
            lines += ["", f"[profiles.{_quoted(name)}.properties]"]
            lines += [f"{_quoted(key)} = {_quoted(value)}" for key, value in sorted(profile.properties.items())]
    return "".join(f"{line}\n" for line in lines)


def save(path: Path, profiles: Profiles) -> None:
    """Replace the file as a whole; only the user can read it."""
    import tempfile

    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # A new file of this kind has the mode 0600.
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".config-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(render(profiles))
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        raise ActionError(f"Cannot write {path}: {error.strerror}. Check the folder.") from None


def _quoted(text: str) -> str:
    """Return a basic string of TOML. JSON's escapes are a subset of TOML's, but JSON leaves DEL as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _invalid(path: Path, reason: str) -> ActionError:
    return ActionError(f"Invalid configuration file {path}: {reason}.")
