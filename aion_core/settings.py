"""The environment, read once, frozen; a variable that is missing or cannot be read is named at start.

The template sets these on each function; `aion dev` sets them from the same template.
"""

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from aion_core.errors import ConfigurationError

WEB_ADDRESS = re.compile(r"https?://[^\s/?#]+[^\s?#]*")
"""Where a server, or what it serves, is reached: an http or https URL without a query."""

DEFAULT_BASE_URL = "http://127.0.0.1:8000"
"""Where a server is that nobody has told where it is, and no front of AWS's: on the machine of whoever asks."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a deployment may choose without touching code."""

    config: Path
    """AION_CONFIG: the aion.yaml that declares the agents; paths in it are relative to its folder."""
    base_url: str
    """AION_BASE_URL: where clients reach the server, for the agent card, never taken from a Host header (R18); or ""."""
    store: str
    """AION_STORE: `dynamodb`; `sqlite` for one machine; `memory` for a process that may forget."""
    sqlite_folder: Path
    """AION_SQLITE_FOLDER: with `sqlite`, the folder of the files that hold everything."""
    turns_at_once: int
    """AION_TURNS_AT_ONCE: with `sqlite`, how many turns from the queue run at once."""
    table: str
    """AION_TABLE: the name of the one table."""
    store_calls: int
    """AION_STORE_CALLS: how many calls of AWS's are made at once; others wait for one of them to end."""
    store_timeout: float
    """AION_STORE_TIMEOUT: after how many seconds such a call fails; more than 3 only where the store is an emulator."""
    bucket: str
    """AION_BUCKET: where large payloads lie."""
    task_queue_url: str
    """AION_TASK_QUEUE_URL: the queue of the bells that wake the function which runs turns."""
    push_queue_url: str
    """AION_PUSH_QUEUE_URL: the queue of the bells that wake the function which delivers push notifications."""
    kms_key: str
    """AION_KMS_KEY: the KMS key that seals ADK's sessions and push configs, by its ARN, id or alias."""
    push_http: bool
    """AION_PUSH_HTTP: let webhooks be called by http too, and at any port; for development."""
    push_ports: tuple[int, ...]
    """AION_PUSH_PORTS: the ports at which webhooks may be called; 443 and 8443 where nothing is said."""
    push_hosts: tuple[str, ...]
    """AION_PUSH_HOSTS: the only hosts whose webhooks may be called; one that begins with a dot, and all below it."""
    push_networks: tuple[str, ...]
    """AION_PUSH_NETWORKS: networks whose addresses may be called though they are not public, such as 10.1.0.0/16."""
    lease_seconds: float
    """AION_LEASE_SECONDS: how long a turn may go unheard before another instance takes it over."""
    max_tries: int
    """AION_MAX_TRIES: how often a turn is begun before its task fails."""
    blocking_wait: float
    """AION_BLOCKING_WAIT: after so many seconds a blocking send answers with the task as it stands."""
    retention_days: float
    """AION_RETENTION_DAYS: how long tasks and all that belongs to them are kept."""
    card_key_file: str
    """AION_CARD_KEY_FILE: the private key, PEM or JWK, that signs the agent cards; unsigned where there is none."""
    card_key_secret: str
    """AION_CARD_KEY_SECRET: the ARN of what holds the key, instead of a file: a secret, or an SSM SecureString."""
    card_key_id: str
    """AION_CARD_KEY_ID: what signatures name the key by; its thumbprint where nothing is said."""
    card_key_url: str
    """AION_CARD_KEY_URL: where clients find the public key; the server's own key set where nothing is said."""
    entrypoints: tuple[str, ...]
    """AION_HTTP_ENTRYPOINTS: how each way to the function asks for AWS signatures: `AWS_IAM` or `NONE` (and `OFF` for no way)."""
    auth: bool
    """AION_AUTH: `off` lets everybody on this machine call; for development, and refused on Lambda."""
    basic_users_file: str
    """AION_BASIC_USERS_FILE: a JSON object of names and argon2 hashes, where HTTP Basic is declared."""
    basic_users_secret: str
    """AION_BASIC_USERS_SECRET: the ARN of what holds it, instead of a file: a secret, or an SSM SecureString."""
    secrets: bool
    """AION_SECRETS: `off` reads none of aion.yaml's `secrets` from AWS; for development, and so in `sam local`."""
    reveal_errors: bool
    """AION_REVEAL_ERRORS: put an agent's own error text on the wire; for development."""
    on_lambda: bool
    """AWS_LAMBDA_FUNCTION_NAME is set, by Lambda: what is logged and counted is written for CloudWatch."""
    service: str
    """POWERTOOLS_SERVICE_NAME: what lines, metrics and traces call this deployment."""
    log_level: str
    """POWERTOOLS_LOG_LEVEL, or AWS_LAMBDA_LOG_LEVEL, which Lambda sets where logs are JSON: what is logged on Lambda."""
    traces_to: str
    """OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: where traces are sent; nowhere without one."""

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Return the settings; raises ConfigurationError that names the variable."""
        read = _Reader(os.environ if environ is None else environ)
        store = read.one_of("AION_STORE", ("dynamodb", "sqlite", "memory"))
        needs_aws = store == "dynamodb"
        return cls(
            config=Path(read.text("AION_CONFIG", "aion.yaml")),
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
            lease_seconds=read.seconds("AION_LEASE_SECONDS", 30.0),
            max_tries=read.count("AION_MAX_TRIES", 3),
            blocking_wait=read.seconds("AION_BLOCKING_WAIT", 240.0),
            retention_days=read.seconds("AION_RETENTION_DAYS", 30.0),
            card_key_file=read.text("AION_CARD_KEY_FILE", ""),
            card_key_secret=read.at_most_one("AION_CARD_KEY_SECRET", "AION_CARD_KEY_FILE"),
            card_key_id=read.text("AION_CARD_KEY_ID", ""),
            card_key_url=read.url("AION_CARD_KEY_URL", ""),
            entrypoints=read.entrypoints("AION_HTTP_ENTRYPOINTS"),
            auth=read.one_of("AION_AUTH", ("on", "off")) == "on" or read.refuse_on_lambda("AION_AUTH"),
            basic_users_file=read.text("AION_BASIC_USERS_FILE", ""),
            basic_users_secret=read.at_most_one("AION_BASIC_USERS_SECRET", "AION_BASIC_USERS_FILE"),
            secrets=read.one_of("AION_SECRETS", ("on", "off")) == "on" and read.text("AWS_SAM_LOCAL", "") != "true",
            reveal_errors=read.one_of("AION_REVEAL_ERRORS", ("false", "true")) == "true",
            on_lambda=bool(read.text("AWS_LAMBDA_FUNCTION_NAME", "")),
            service=read.text("POWERTOOLS_SERVICE_NAME", "aion"),
            log_level=read.text("POWERTOOLS_LOG_LEVEL", read.text("AWS_LAMBDA_LOG_LEVEL", "INFO")),
            traces_to=read.url("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", read.url("OTEL_EXPORTER_OTLP_ENDPOINT", "")),
        )


class _Reader:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def text(self, name: str, default: str | None) -> str:
        value = self._environ.get(name) or default
        if value is None:
            raise ConfigurationError(f"The environment variable {name} is missing. template.yaml sets it.")
        return value

    def url(self, name: str, default: str) -> str:
        value = self.text(name, default)
        if value and not WEB_ADDRESS.fullmatch(value):
            raise ConfigurationError(f"{name} is {value!r}; it has to be an http or https URL without a query.")
        return value

    def entrypoints(self, name: str) -> tuple[str, ...]:
        """Return how the ways that there are ask for signatures."""
        value = self.text(name, "")
        entrypoints = tuple(value.split(",")) if value else ()
        if not set(entrypoints) <= {"AWS_IAM", "NONE", "OFF"}:
            raise ConfigurationError(f"{name} is {value!r}; it has to be AWS_IAM, NONE or OFF for each way, by commas.")
        return tuple(entrypoint for entrypoint in entrypoints if entrypoint != "OFF")

    def refuse_on_lambda(self, name: str) -> bool:
        """Return False where this is no function of AWS; SAM's local one is none."""
        if self._environ.get("AWS_LAMBDA_FUNCTION_NAME") and self._environ.get("AWS_SAM_LOCAL") != "true":
            raise ConfigurationError(f"{name} is off, and this is a deployed function: there nobody calls unasked.")
        return False

    def at_most_one(self, name: str, other: str) -> str:
        """Return what `name` says; of the two only one may say something."""
        value = self.text(name, "")
        if value and self.text(other, ""):
            raise ConfigurationError(f"{name} and {other} are both set; leave one of them.")
        return value

    def several(self, name: str) -> tuple[str, ...]:
        """Return what stands between commas; nothing where nothing is said."""
        return tuple(said for word in self.text(name, "").split(",") if (said := word.strip()))

    def port(self, name: str, value: str) -> int:
        if not (value.isascii() and value.isdecimal() and 0 < int(value) < 65536):
            raise ConfigurationError(f"{name} holds {value!r}; a port is a number from 1 to 65535.")
        return int(value)

    def network(self, name: str, value: str) -> str:
        try:
            ipaddress.ip_network(value)
        except ValueError:
            raise ConfigurationError(f"{name} holds {value!r}; a network is like 10.1.0.0/16.") from None
        return value

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        """Return one of the choices; the first where nothing is said."""
        value = self.text(name, choices[0]).lower()
        if value not in choices:
            raise ConfigurationError(f"{name} is {value!r}; it may be {' or '.join(choices)}.")
        return value

    def seconds(self, name: str, default: float) -> float:
        value = self.text(name, str(default))
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if not 0 < number < float("inf"):
            raise ConfigurationError(f"{name} is {value!r}; it has to be a number above 0.")
        return number

    def count(self, name: str, default: int) -> int:
        value = self.text(name, str(default))
        if not (value.isascii() and value.isdecimal() and int(value) > 0):
            raise ConfigurationError(f"{name} is {value!r}; it has to be a whole number, 1 or more.")
        return int(value)
