"""Environment variables of agents on a developer's machine: `environment` of aion.yaml, and the .env file."""

from collections.abc import Mapping
from pathlib import Path

from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.reading import DeploymentConfig
from aion_core.loading.deployment import read_deployment_config

DOTENV = ".env"
"""Name of the file with a developer's environment variables, beside aion.yaml. The file is never packaged."""


def local_environment(
    config: Path, environ: Mapping[str, str], declared: DeploymentConfig | None = None
) -> tuple[dict[str, str], list[str]]:
    """Return the variables to set for agents on this machine, and a warning for each secret without a value.

    `config` is the path of aion.yaml, and `declared` its contents if the caller has read them. The .env file in the
    same folder overrides `environment` of aion.yaml. Variables that `environ` has already are omitted. No secret is
    read from AWS. Raises ConfigurationError for an unreadable .env, and the errors of `read_deployment_config`.
    """
    if declared is None:
        declared = (
            read_deployment_config(config) if config.is_file() else DeploymentConfig({}, None, config.resolve().parent)
        )
    file = config.resolve().parent / DOTENV
    found = {**declared.environment, **read_dotenv(file)}
    variables = {name: value for name, value in found.items() if name not in environ}
    warnings = [
        f"{name} is not set: its secret ({source}) is not read from AWS on this machine. "
        f"Write {name}=… into {file}, or export {name}."
        for name, source in declared.secrets.items()
        if not environ.get(name) and not variables.get(name)
    ]
    return variables, warnings


def read_dotenv(file: Path) -> dict[str, str]:
    """Return the variables of a .env file; {} if the file is missing. Raises ConfigurationError if it is unreadable."""
    if not file.is_file():
        return {}
    try:
        from dotenv import dotenv_values
    except ImportError as error:
        raise ConfigurationError(
            f"{file} cannot be read, since python-dotenv is not here: install aion-lambda[local]."
        ) from error
    try:
        values = dotenv_values(file, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        # Omit the invalid bytes from the error: they may be part of a secret.
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"{file} cannot be read: {reason}.") from None
    # Skip names without `=`, which have no value.
    return {name: value for name, value in values.items() if value is not None and "\0" not in value}
