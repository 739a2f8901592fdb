"""Settings from environment variables, read once at start.

template.yaml sets these variables on each function. `aion dev` sets them from the same template.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from msgspec import Struct

from aion_core.environment import EnvironmentReader, is_deployed, is_sam_local
from aion_core.errors import ConfigurationError

DEFAULT_BASE_URL = "http://127.0.0.1:8000"
"""Base URL of a server without AION_BASE_URL, outside of AWS."""

_PURPOSES = {
    "AION_STORE": "it keeps the tasks of a server on one machine",
    "AION_LOCAL_ENVIRONMENT": "it passes the variables of a developer's .env to the agents",
    "AION_PUSH_HTTP": "it allows webhooks with http, at any port",
    "AION_PUSH_NETWORKS": "it allows webhooks in private networks",
    "AION_LOOPBACK_ORIGINS": "it lets web pages of the developer's machine call the agents",
    "AION_REVEAL_ERRORS": "it shows the error texts of agents to their clients",
    "AION_TRACE": "it stores the arguments and results of agents' tools",
}
_HARMLESS = {
    "AION_STORE": "dynamodb",
    "AION_PUSH_HTTP": "false",
    "AION_LOOPBACK_ORIGINS": "false",
    "AION_REVEAL_ERRORS": "false",
    "AION_TRACE": "off",
}
"""Values of development variables that a function on AWS has anyway."""
DEVELOPMENT = tuple(_PURPOSES)
"""Names of the variables that only development sets. A function on AWS doesn't start with one of them.

template.yaml declares each with an empty value, because SAM CLI passes no other variables to a container.
"""


class Settings(Struct, frozen=True):
    """Settings of a deployment or of a local server."""

    config: Path
    """AION_CONFIG: path of the aion.yaml with the agents. Paths in it are relative to its folder."""
    agent_environment: str
    """AION_AGENT_ENVIRONMENT: JSON object of further environment variables for agents' code, or ""."""
    local_environment: str
    """AION_LOCAL_ENVIRONMENT: JSON object of variables in a developer's .env, or "". They precede all other variables."""
    base_url: str
    """AION_BASE_URL: URL of the server in agent cards, or "". The server never takes it from a Host header."""
    store: str
    """AION_STORE: type of the store. It is `dynamodb`, `sqlite` on one machine, or `memory` until the process ends."""
    sqlite_folder: Path
    """AION_SQLITE_FOLDER: folder of the database files of the `sqlite` store."""
    turns_at_once: int
    """AION_TURNS_AT_ONCE: maximum number of concurrent turns from the queue of the `sqlite` store."""
    table: str
    """AION_TABLE: name of the DynamoDB table."""
    store_calls: int
    """AION_STORE_CALLS: maximum number of concurrent AWS requests. Further requests wait."""
    store_timeout: float
    """AION_STORE_TIMEOUT: timeout of an AWS request in seconds. Use more than 3 only with an emulator."""
    bucket: str
    """AION_BUCKET: S3 bucket for large payloads."""
    task_queue_url: str
    """AION_TASK_QUEUE_URL: queue of wake-up messages for TaskFunction."""
    push_queue_url: str
    """AION_PUSH_QUEUE_URL: queue of wake-up messages for PushFunction."""
    kms_key: str
    """AION_KMS_KEY: KMS key for encrypting ADK's sessions and push configs, as ARN, id or alias."""
    push_http: bool
    """AION_PUSH_HTTP: allow webhooks with http and at any port, for development."""
    push_ports: tuple[int, ...]
    """AION_PUSH_PORTS: allowed webhook ports, by default 443 and 8443."""
    push_hosts: tuple[str, ...]
    """AION_PUSH_HOSTS: allowed webhook hosts, by default all. A leading dot includes subdomains."""
    push_networks: tuple[str, ...]
    """AION_PUSH_NETWORKS: private networks allowed for webhooks, such as 10.1.0.0/16."""
    push_receiver: str
    """AION_PUSH_RECEIVER: the only URL of this server that webhooks may have, for the console of `aion dev`; or ""."""
    lease_seconds: float
    """AION_LEASE_SECONDS: duration of a turn's lease. After its expiry another process takes over the turn."""
    max_tries: int
    """AION_MAX_TRIES: maximum number of starts of a turn before its task fails."""
    blocking_wait: float
    """AION_BLOCKING_WAIT: seconds until a blocking SendMessage request returns an unfinished task."""
    retention_days: float
    """AION_RETENTION_DAYS: retention of tasks and their data, in days."""
    card_key_file: str
    """AION_CARD_KEY_FILE: file with the private key (PEM or JWK) for agent cards. Without it cards are not signed."""
    card_key_secret: str
    """AION_CARD_KEY_SECRET: ARN of a secret or SSM SecureString with the card key, instead of a file."""
    card_key_id: str
    """AION_CARD_KEY_ID: key id in card signatures, by default the key's thumbprint."""
    card_key_url: str
    """AION_CARD_KEY_URL: URL of the public card key, by default the server's own key set."""
    entrypoints: tuple[str, ...]
    """AION_HTTP_ENTRYPOINTS: authorization of each HTTP entry point: `AWS_IAM`, `NONE`, or `OFF` if it does not exist."""
    auth: bool
    """AION_AUTH: `off` disables authentication for callers on this machine, for development. A function on AWS refuses `off`."""
    loopback_origins: bool
    """AION_LOOPBACK_ORIGINS: let pages of this machine call the agents from a browser (CORS), for development."""
    console: bool
    """AION_CONSOLE: `on` serves a console at the root to browsers; `off` by default."""
    basic_users_file: str
    """AION_BASIC_USERS_FILE: JSON object of user names and argon2 hashes, for HTTP Basic."""
    basic_users_secret: str
    """AION_BASIC_USERS_SECRET: ARN of a secret or SSM SecureString with the users, instead of a file."""
    secrets: bool
    """AION_SECRETS: with `off` the process does not read the `secrets` of aion.yaml from AWS. `sam local` is always off."""
    reveal_errors: bool
    """AION_REVEAL_ERRORS: include an agent's error text in responses, for development."""
    trace: bool
    """AION_TRACE: `on` stores the steps of each turn, with arguments and results of tools, for `aion dev`; `off` by default."""
    sam_local: bool
    """True if AWS_SAM_LOCAL is `true`, in a container of `sam local`."""
    on_lambda: bool
    """True if Lambda has set AWS_LAMBDA_FUNCTION_NAME. Then logs and metrics have CloudWatch's formats."""
    snap_start: bool
    """True if Lambda has set AWS_LAMBDA_INITIALIZATION_TYPE to `snap-start`: it restores this process from a snapshot."""
    service: str
    """POWERTOOLS_SERVICE_NAME: service name in logs, metrics and traces."""
    log_level: str
    """POWERTOOLS_LOG_LEVEL or AWS_LAMBDA_LOG_LEVEL (set by Lambda for JSON logs): log level on Lambda."""
    traces_to: str
    """OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT: URL of the trace collector, if any."""

    @property
    def public_url(self) -> str:
        """URL of the server in agent cards, as far as it is known without a request; "" if only AWS's events tell it."""
        return self.base_url or ("" if self.on_lambda else DEFAULT_BASE_URL)

    @property
    def only_in_invocations(self) -> bool:
        """True for a function with its store in memory, as in `sam local`: nothing runs between two invocations.

        The tasks are in this environment only. No other function sees them, and no queue continues them.
        """
        return self.on_lambda and self.store == "memory"

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read the settings from environment variables. Raises ConfigurationError with the name of an invalid variable."""
        environ = os.environ if environ is None else environ
        _refuse_development_on_aws(environ)
        read = EnvironmentReader(environ)
        store = read.one_of("AION_STORE", ("dynamodb", "sqlite", "memory"))
        needs_aws, on_lambda = store == "dynamodb", bool(read.text("AWS_LAMBDA_FUNCTION_NAME", ""))
        if store == "sqlite" and on_lambda:
            raise ConfigurationError("AION_STORE is sqlite, which needs a server. In `sam local` it must be memory.")
        return cls(
            config=Path(read.text("AION_CONFIG", "aion.yaml")),
            agent_environment=read.text("AION_AGENT_ENVIRONMENT", ""),
            local_environment=read.text("AION_LOCAL_ENVIRONMENT", ""),
            base_url=read.url("AION_BASE_URL", "").rstrip("/"),
            store=store,
            sqlite_folder=Path(read.text("AION_SQLITE_FOLDER", ".aion/store")),
            turns_at_once=read.count("AION_TURNS_AT_ONCE", 64),
            table=read.text("AION_TABLE", None if needs_aws else ""),
            store_calls=read.count("AION_STORE_CALLS", 16),
            store_timeout=read.seconds("AION_STORE_TIMEOUT", 3.0),
            bucket=read.text("AION_BUCKET", None if needs_aws else ""),
            task_queue_url=read.text("AION_TASK_QUEUE_URL", None if needs_aws else ""),
            push_queue_url=read.text("AION_PUSH_QUEUE_URL", ""),
            kms_key=read.text("AION_KMS_KEY", ""),
            push_http=read.one_of("AION_PUSH_HTTP", ("false", "true")) == "true",
            push_ports=tuple(read.port("AION_PUSH_PORTS", port) for port in read.several("AION_PUSH_PORTS")),
            push_hosts=read.several("AION_PUSH_HOSTS"),
            push_networks=tuple(
                read.network("AION_PUSH_NETWORKS", network) for network in read.several("AION_PUSH_NETWORKS")
            ),
            push_receiver=read.url("AION_PUSH_RECEIVER", ""),
            lease_seconds=read.seconds("AION_LEASE_SECONDS", 30.0),
            max_tries=read.count("AION_MAX_TRIES", 3),
            blocking_wait=read.seconds("AION_BLOCKING_WAIT", 240.0),
            retention_days=read.seconds("AION_RETENTION_DAYS", 30.0),
            card_key_file=read.text("AION_CARD_KEY_FILE", ""),
            card_key_secret=read.at_most_one("AION_CARD_KEY_SECRET", "AION_CARD_KEY_FILE"),
            card_key_id=read.text("AION_CARD_KEY_ID", ""),
            card_key_url=read.url("AION_CARD_KEY_URL", ""),
            entrypoints=read.entrypoints("AION_HTTP_ENTRYPOINTS"),
            auth=read.one_of("AION_AUTH", ("on", "off")) == "on",
            loopback_origins=read.one_of("AION_LOOPBACK_ORIGINS", ("false", "true")) == "true",
            console=read.one_of("AION_CONSOLE", ("off", "on")) == "on",
            basic_users_file=read.text("AION_BASIC_USERS_FILE", ""),
            basic_users_secret=read.at_most_one("AION_BASIC_USERS_SECRET", "AION_BASIC_USERS_FILE"),
            secrets=read.one_of("AION_SECRETS", ("on", "off")) == "on" and not is_sam_local(environ),
            reveal_errors=read.one_of("AION_REVEAL_ERRORS", ("false", "true")) == "true",
            trace=read.one_of("AION_TRACE", ("off", "on")) == "on",
            sam_local=is_sam_local(environ),
            on_lambda=on_lambda,
            snap_start=read.text("AWS_LAMBDA_INITIALIZATION_TYPE", "") == "snap-start",
            service=read.text("POWERTOOLS_SERVICE_NAME", "aion"),
            log_level=read.text("POWERTOOLS_LOG_LEVEL", read.text("AWS_LAMBDA_LOG_LEVEL", "INFO")),
            traces_to=read.url("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", read.url("OTEL_EXPORTER_OTLP_ENDPOINT", "")),
        )


def _refuse_development_on_aws(environ: Mapping[str, str]) -> None:
    """Raise ConfigurationError if a function on AWS has a development variable, or AION_AUTH=off."""
    if not is_deployed(environ):
        return
    for name, purpose in _PURPOSES.items():
        # A default that is written out harms nobody.
        if environ.get(name, "").lower() not in ("", _HARMLESS.get(name, "")):
            raise ConfigurationError(
                f"{name} is set, but a deployed function refuses it, because it is for development: {purpose}. Remove "
                "it from the function's environment variables."
            )
    if environ.get("AION_AUTH", "").lower() == "off":
        raise ConfigurationError(
            "AION_AUTH is off, but a deployed function refuses this, because it is for development: it admits callers "
            "without authentication. Set it to on, as template.yaml does."
        )
