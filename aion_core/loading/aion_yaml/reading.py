"""Reading of an aion.yaml into a DeploymentConfig."""

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, field
from pydantic import ValidationError

from aion_core.engine.limits.limits import Limits
from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.agent import AgentConfig
from aion_core.loading.aion_yaml.environment import SecretSource
from aion_core.loading.aion_yaml.file import AionSection, ConfigFile
from aion_core.loading.aion_yaml.mistakes import error_texts
from aion_core.loading.aion_yaml.remotes import RemoteConfig

AION_YAML = "aion.yaml"
"""Usual name of the file."""


class UniqueKeyLoader(yaml.SafeLoader):
    """YAML loader that raises ConfigurationError if a mapping repeats a key, or a key or text is unusable.

    PyYAML's own loader would silently use the last value of a repeated key.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Return the mapping. Refuse a key that is repeated or no text."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigurationError(f"the key at {_place(key)} is not a text. Put a text with braces in quotes.")
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise ConfigurationError(f"the key {key.value!r} is twice in one mapping, again at {_place(key)}.")
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)

    def construct_scalar(self, node: Any) -> Any:
        """Return the scalar. Join the surrogate pairs of JSON's escapes."""
        try:
            return super().construct_scalar(node).encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as error:
            raise ConfigurationError(f"the text at {_place(node)} has half a surrogate pair.") from error


def _place(node: yaml.Node) -> str:
    return f"line {node.start_mark.line + 1}, column {node.start_mark.column + 1}"


class DeploymentConfig(Struct, frozen=True):
    """Configuration of a deployment, read from an aion.yaml or discovered in a project."""

    agents: Mapping[str, AgentConfig]
    """Agents in the order of the file."""
    limits: Limits | None
    """Limits for each caller; None without `aion.limits`, for the default limits."""
    folder: Path
    """Base folder of the agents' paths."""
    roots: Sequence[Path] = ()
    """Further folders for imports, beside the folder and its `src`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for the agents' code."""
    secrets: Mapping[str, SecretSource] = field(default_factory=dict)
    """Sources of secret values, by the name of the environment variable for the agents' code."""
    remotes: Mapping[str, RemoteConfig] = field(default_factory=dict)
    """Remote agents by the names with which the agents' code calls them."""
    exclude: Sequence[str] = ()
    """Patterns of the dependencies' files that the Lambda packages leave out."""


def read_config_file(path: Path) -> DeploymentConfig:
    """Read an aion.yaml. Raises ConfigurationError with the file, the invalid key and the remedy."""
    parsed = _parsed(path)
    folder = path.resolve().parent
    roots = [_existing_folder(folder / root, f"{path}: aion.python_path") for root in parsed.python_path]
    return DeploymentConfig(
        parsed.with_deployment_settings(),
        Limits(**parsed.limits.model_dump()) if parsed.limits else None,
        folder,
        roots,
        parsed.environment,
        parsed.secrets,
        parsed.remotes,
        parsed.exclude,
    )


def _existing_folder(folder: Path, key: str) -> Path:
    if not folder.is_dir():
        raise ConfigurationError(f"{key} names {folder}, which is not a folder. Fix the name, or create the folder.")
    return folder.resolve()


def _parsed(path: Path) -> AionSection:
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), UniqueKeyLoader)  # noqa: S506  # a SafeLoader
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}. AION_CONFIG names the file.") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    except RecursionError as error:
        raise ConfigurationError(f"{path}: it is nested too deeply.") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not UTF-8: {error.reason}. Save it with this encoding.") from error
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", error)
        at = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        hint = " Indent with spaces." if "'\\t'" in str(problem) else ""
        raise ConfigurationError(f"{path} is not valid YAML{at}: {problem}.{hint}") from error
    try:
        return ConfigFile.model_validate(content).aion
    except ValidationError as error:
        raise ConfigurationError("\n".join(error_texts(path, error))) from error
