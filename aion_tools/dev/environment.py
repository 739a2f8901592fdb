"""Environment variables on a developer's machine: of the agents (aion.yaml, the .env file), and of the server."""

from collections.abc import Mapping
from pathlib import Path

from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.reading import DeploymentConfig
from aion_core.loading.deployment import read_deployment_config
from aion_core.loading.discovery.discovered import Discovered
from aion_tools.dev.console import RECEIVER_PATH
from aion_tools.dev.data_folder import SQLITE, STORE
from aion_tools.dev.worker_task import WorkerTask

CHOSEN = (
    "AION_LEASE_SECONDS",
    "AION_MAX_TRIES",
    "AION_BLOCKING_WAIT",
    "AION_RETENTION_DAYS",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
)
"""Environment variables of the functions that a developer may override. Other values come from the template."""

DOTENV = ".env"
"""Name of the file with a developer's environment variables, beside aion.yaml. The file is never packaged."""


def server_environment(task: WorkerTask, chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the worker's environment variables that take precedence over the template's.

    `chosen` has the developer's own environment, from which only the variables in `CHOSEN` are used.
    """
    environment = {
        # Use a short lease, so that the turn of a killed worker is soon taken over, as a developer expects.
        **({} if task.store == "dynamodb" else {"AION_LEASE_SECONDS": "10"}),
        **{name: chosen[name] for name in CHOSEN if name in chosen},
        "AION_BASE_URL": task.base_url,
        "AION_STORE": task.store,
        "AION_AUTH": task.auth,
        # Declare no HTTP entry points, because there is no API Gateway or Function URL here that verifies AWS
        # signatures.
        "AION_HTTP_ENTRYPOINTS": "",
        "AION_REVEAL_ERRORS": "true",
        "AION_LOOPBACK_ORIGINS": "true",
        "AION_CONSOLE": "on",
        "AION_TRACE": "on",
        # Take the agents' keys from .env, and do not read secrets with the developer's own AWS credentials.
        "AION_SECRETS": "off",
        # Permit webhooks on this machine over http, because developers run their webhooks here.
        "AION_PUSH_HTTP": "true",
        "AION_PUSH_NETWORKS": "127.0.0.0/8,::1/128",
        "AION_PUSH_RECEIVER": f"{task.base_url}{RECEIVER_PATH}",
    }
    if task.store == "sqlite":
        environment[SQLITE] = str(Path(task.data_folder) / STORE)
    elif task.store == "dynamodb":
        # Limit concurrent calls, because the emulator serves one call at a time. Further calls wait in this process,
        # not in the emulator's sockets.
        environment |= {"AION_STORE_CALLS": "4", "AION_STORE_TIMEOUT": "60"}
    return environment


def agents_variables(found: Discovered, environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the project's environment variables for its agents, and a warning for each secret without a value.

    Variables set in `environ` are left out. Raises ConfigurationError for an unreadable .env.
    """
    if found.config is not None:
        return local_environment(found.config, environ)
    variables = dict(found.env)
    for file in reversed(found.env_files):
        variables |= read_dotenv(file)
    return {name: value for name, value in variables.items() if name not in environ}, []


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
