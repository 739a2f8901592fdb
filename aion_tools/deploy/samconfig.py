"""Reader and writer of the options of an environment in samconfig.toml. Writing preserves the file's comments."""

import re
import shlex
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Array, Table

from aion_core.errors import ConfigurationError

DEFAULT = "default"
_OVERRIDES = "parameter_overrides"
_PLAIN = re.compile(r"[^\s\"'\\]+")


@dataclass
class SamConfig:
    """Options of one environment in a samconfig.toml."""

    path: Path
    environment: str
    _document: tomlkit.TOMLDocument

    @classmethod
    def read(cls, path: Path, environment: str = DEFAULT) -> "SamConfig":
        """Read an environment from the file. A missing file counts as empty.

        Raises ConfigurationError for an unreadable file, for invalid TOML and for an unknown environment.
        """
        try:
            document = tomlkit.parse(path.read_text(encoding="utf-8")) if path.is_file() else tomlkit.document()
        except (TOMLKitError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{path} is not valid TOML: {error}.") from error
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be read: {error.strerror}.") from error
        known = [name for name, section in document.items() if isinstance(section, Mapping)]
        if environment not in known and environment != DEFAULT:
            names = ", ".join(known) or "no environment"
            raise ConfigurationError(f"{path.name} has no environment {environment!r}; it has {names}.")
        return cls(path, environment, document)

    def get(self, name: str, command: str = "deploy") -> str:
        """Return the value of an option of a SAM command in this environment, or "" if it is not set."""
        for section in (command, "global"):
            value = self._section(section).get(name)
            if value is not None:
                return str(value)
        return ""

    @property
    def parameters(self) -> dict[str, str]:
        """Values of the template parameters for `sam deploy`, by name. Raises ConfigurationError if one is invalid."""
        value = self._section("deploy").get(_OVERRIDES, [])
        try:
            words = [str(each) for each in value] if isinstance(value, list) else shlex.split(str(value))
            return parameters(words)
        except ValueError as error:
            raise ConfigurationError(f"{self.path.name}, {_OVERRIDES} of {self.environment}: {error}") from error

    @property
    def confirms_changes(self) -> bool:
        """True if `sam deploy` must ask before it changes the stack."""
        return self.get("confirm_changeset").lower() == "true"

    def without_profile(self) -> str:
        """Return the file's text without AWS profiles, for SAM CLI: it would prefer them to those of the environment."""
        copied = SamConfig(self.path, self.environment, tomlkit.parse(tomlkit.dumps(self._document)))
        for command in ("global", "build", "deploy"):
            copied._section(command).pop("profile", None)
        return tomlkit.dumps(copied._document)

    def remember(self, options: Mapping[str, str], given: Mapping[str, str]) -> None:
        """Write options and template parameters of `sam deploy` into the file. Its other content stays unchanged."""
        if not options and not given:
            return
        table = self._deploy()
        for name, value in options.items():
            table[name] = value
        if given:
            _write(table, {**self.parameters, **given}, set(given))
        self.path.write_text(tomlkit.dumps(self._document), encoding="utf-8")

    def _section(self, command: str) -> MutableMapping[str, Any]:
        """Return the options of a SAM command. Raises ConfigurationError if they are not in a table."""
        found: Any = self._document
        names = (self.environment, command, "parameters")
        for depth, name in enumerate(names, 1):
            found = found.get(name, {})
            if not isinstance(found, Mapping):
                raise ConfigurationError(f"{self.path.name}: {'.'.join(names[:depth])} has to be a table.")
        section: MutableMapping[str, Any] = found
        return section

    def _deploy(self) -> Table:
        """Return the environment's TOML table with the options of `sam deploy`. Add an empty table if it is missing."""
        self._document.setdefault("version", 0.1)
        found: Any = self._document
        for name in (self.environment, "deploy", "parameters"):
            if name not in found:
                found[name] = tomlkit.table(is_super_table=name != "parameters")
            found = found[name]
        table: Table = found
        return table


def parameters(words: Iterable[str]) -> dict[str, str]:
    """Parse arguments such as `Stage=dev` into template parameters by name. Raises ValueError if one is invalid."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z0-9]+", name):
            raise ValueError(f"{word!r} has to be NAME=VALUE.")
        if len(value) >= 2 and value[0] == value[-1] == '"':
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        found[name] = value
    return found


def word(name: str, value: str) -> str:
    """Return a template parameter as an argument of SAM CLI, such as `Stage=dev`, quoted if necessary."""
    if _PLAIN.fullmatch(value):
        return f"{name}={value}"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name}="{escaped}"'


def _write(table: Table, wanted: Mapping[str, str], changed: set[str]) -> None:
    """Write the changed template parameters into the table's array. A new value replaces the parameter's old value."""
    array = table.get(_OVERRIDES)
    if not isinstance(array, Array):
        array = tomlkit.array()
        array.extend(word(name, value) for name, value in wanted.items())
        table[_OVERRIDES] = array
        return
    positions = {str(each).partition("=")[0]: position for position, each in enumerate(array)}
    for name in sorted(changed):
        if name in positions:
            array[positions[name]] = word(name, wanted[name])
        elif "\n" in array.as_string():
            array.add_line(word(name, wanted[name]), indent="  ")
        else:
            array.append(word(name, wanted[name]))
