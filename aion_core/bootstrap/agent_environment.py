"""Environment variables and secrets for agents' code: set before the code is imported, and refreshed regularly.

Only functions with agents use this module. Other functions need no model keys, and their roles cannot read them.
"""

import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import MappingProxyType

from aion_core import log
from aion_core.clock import Clock
from aion_core.errors import ConfigurationError
from aion_core.loading.aion_yaml.environment import SecretSource, variable_name
from aion_core.loading.aion_yaml.reading import DeploymentConfig
from aion_core.settings import Settings

logger = logging.getLogger(__name__)

REFRESH = timedelta(minutes=5)
"""Age of the secrets' values at which a turn starts to read them again."""
BETWEEN_TRIES = timedelta(seconds=30)
"""Minimum time between two attempts to read the secrets."""
STALE = timedelta(minutes=30)
"""Age from which an unreadable secret is logged as an error, not as a warning. An alarm counts errors."""

NOT_SET = "Not set, because a process on this machine reads no secrets: %s. Set them in .env; for `sam local`, then run `sam build` again."
"""Log message for the variables of `secrets` without a value, in development."""

_AT_ONCE = 16

Read = Callable[[str, str], str]
"""Function that returns the text of a secret by service and name. It blocks, and several threads call it.

Raises ConfigurationError with the remedy and without any part of the secret.
"""
Start = Callable[[Callable[[], None]], None]
"""Function that starts work in the background of a turn."""


def _in_a_thread(work: Callable[[], None]) -> None:
    # Use a new thread, because synchronous nodes of ended turns may still occupy all threads of asyncio's default
    # executor.
    threading.Thread(target=work, name="secrets", daemon=True).start()


class AgentEnvironment:
    """Variables for agents' code, from aion.yaml, the template's AgentEnvironment and a developer's .env, set in `environ`.

    The variables of .env come first and replace others, because the container of `sam local` has no other access to the
    developer's environment. Apart from this, a variable with a value is not changed, and its secret is not read. An empty
    variable counts as unset. The template's variables precede those of aion.yaml, because they describe this deployment.
    """

    def __init__(
        self,
        declared: DeploymentConfig,
        clock: Clock,
        read: Read | None,
        *,
        given: Mapping[str, str] = MappingProxyType({}),
        local: Mapping[str, str] = MappingProxyType({}),
        environ: MutableMapping[str, str] | None = None,
        start: Start = _in_a_thread,
    ) -> None:
        """Store the declared variables, those `given` by the template, and the `local` ones of a developer's .env.

        `read` returns a secret's text. If `read` is None, no secret is read.
        """
        self._given, self._local = given, local
        self._declared, self._clock, self._read = declared, clock, read
        self._environ = os.environ if environ is None else environ
        self._start = start
        self._sources: dict[str, SecretSource] = {}
        self._values: dict[str, str] = {}
        self._lock = threading.Lock()
        self._again_at = self._read_at = clock.now()
        self._newest = 0

    def apply(self) -> None:
        """Set the variables. Blocks until all secrets are read.

        Raises ConfigurationError with a line for each unusable secret.
        """
        self._environ.update(self._local)
        for name, value in {**self._declared.environment, **self._given}.items():
            self._environ.setdefault(name, value)
        missing = {name: source for name, source in self._declared.secrets.items() if not self._environ.get(name)}
        if missing and self._read is None:
            logger.warning(NOT_SET, ", ".join(missing))
        elif missing:
            self._sources = missing
            values, problems = self._values_now()
            if problems:
                raise ConfigurationError("\n".join(problems))
            self._read_at = self._clock.now()
            self._again_at = self._read_at + REFRESH
            self._set(values)
        # Redact all secrets' values in the log, including values from a developer's .env.
        log.always_keep_out(*(self._environ[name] for name in self._declared.secrets if name in self._environ))

    def refresh_if_due(self) -> None:
        """If the secrets are older than REFRESH, start to read them again in the background, and return at once.

        A changed value replaces the variable's value. A secret that cannot be read keeps its last value.
        """
        if not self._sources:
            return
        with self._lock:
            now = self._clock.now()
            if now < self._again_at:
                return
            number = self._begin()
        self._start(lambda: self._refresh(number))

    def refresh(self) -> None:
        """Read the secrets again and wait for the result. A secret that cannot be read keeps its last value."""
        if self._sources:
            with self._lock:
                number = self._begin()
            self._refresh(number)

    def _begin(self) -> int:
        """Register a new read of the secrets and return its number. The caller must hold the lock."""
        self._again_at = self._clock.now() + BETWEEN_TRIES
        self._newest += 1
        return self._newest

    def _refresh(self, number: int) -> None:
        try:
            values, problems = self._values_now()
        except Exception:  # log the error here, because the thread would print it unredacted
            logger.exception("Cannot read the agents' secrets again.")
            return
        now = self._clock.now()
        with self._lock:
            if number != self._newest:
                # Discard these values, because a later read has begun in the meantime: Lambda may have frozen this
                # thread.
                return
            self._set(values)
            is_stale = now - self._read_at > STALE
            if not problems:
                self._read_at, self._again_at = now, now + REFRESH
        level = logging.ERROR if is_stale else logging.WARNING
        for problem in problems:
            logger.log(level, "Using the last value of a secret. %s", problem)

    def _set(self, values: Mapping[str, str]) -> None:
        # Redact the values before an agent can log them.
        log.always_keep_out(*values.values())
        for name, value in values.items():
            if value == self._values.get(name):
                continue
            if name in self._values:
                logger.info(
                    "The secret %s has changed; %s has the new value. Existing clients still use the old value.",
                    self._sources[name],
                    name,
                )
            self._values[name] = self._environ[name] = value

    def _values_now(self) -> tuple[dict[str, str], list[str]]:
        """Read all secrets concurrently, and return their values by variable and a message for each problem."""
        places = list(dict.fromkeys((source.service, source.name) for source in self._sources.values()))
        with ThreadPoolExecutor(min(_AT_ONCE, len(places)), thread_name_prefix="secrets") as executor:
            texts = dict(zip(places, executor.map(self._text, places), strict=True))
        values: dict[str, str] = {}
        problems: list[str] = []
        for name, source in self._sources.items():
            text = texts[source.service, source.name]
            try:
                if isinstance(text, ConfigurationError):
                    raise text
                values[name] = _value(text, source)
            except ConfigurationError as error:
                problems.append(f"{name}: secret {source}: {error}")
        return values, problems

    def _text(self, place: tuple[str, str]) -> str | ConfigurationError:
        assert self._read is not None  # noqa: S101  # `_sources` is empty without `read`
        try:
            return self._read(*place)
        except ConfigurationError as error:
            return error


def _value(text: str, source: SecretSource) -> str:
    """Return a variable's value, read from the text of its secret.

    Raises ConfigurationError if the text is invalid. The error does not quote the text, because it is secret.
    """
    # Remove a final line break. `aws secretsmanager … --secret-string file://key` stores the file's last line break,
    # and an HTTP header with the key cannot contain it.
    value = _member(text, source.key) if source.key else text.removesuffix("\n").removesuffix("\r")
    if not value:
        raise ConfigurationError("it is empty. Set its value.")
    try:
        encoded = value.encode()
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise ConfigurationError("it has a character not allowed in an environment variable.")
    return value


def _member(text: str, key: str) -> str:
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        # Leave out the parser's message, because it quotes the secret.
        raise ConfigurationError(f"it is not a JSON object with the key {key!r}. Correct it, or remove #{key}.")
    if key not in document:
        raise ConfigurationError(
            f"its JSON object has no key {key!r}. Correct aion.yaml, or add the key to the secret."
        )
    value = document[key]
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return json.dumps(value)
    raise ConfigurationError(f"the value of its key {key!r} is neither text nor a number.")


def agent_environment(declared: DeploymentConfig, settings: Settings, clock: Clock) -> AgentEnvironment:
    """Return the environment for agents' code. It reads secrets from AWS if the settings enable this.

    Raises ConfigurationError for an invalid AION_AGENT_ENVIRONMENT or AION_LOCAL_ENVIRONMENT.
    """
    given = given_variables(settings.agent_environment)
    local = given_variables(settings.local_environment, "AION_LOCAL_ENVIRONMENT")
    is_needed = settings.secrets and not all(local.get(name) or os.environ.get(name) for name in declared.secrets)
    read = read_from_aws(declared.secrets.values()) if is_needed else None
    return AgentEnvironment(declared, clock, read, given=given, local=local)


def given_variables(text: str, source: str = "The template parameter AgentEnvironment") -> dict[str, str]:
    """Return the variables of a JSON object of texts, or none for the text "".

    Raises ConfigurationError. Its text begins with the source, and repeats no value.
    """
    try:
        given = json.loads(text or "{}")
    except ValueError as error:
        raise ConfigurationError(f"{source} is not JSON: {error}.") from None
    if not isinstance(given, dict):
        raise ConfigurationError(f'{source} is not a JSON object, such as {{"TABLE": "notes"}}.')
    for name, value in given.items():
        try:
            variable_name(name)
        except ValueError as error:
            raise ConfigurationError(f"{source} sets {name!r}: {error}.") from None
        if not isinstance(value, str) or "\0" in value:
            raise ConfigurationError(f'{source}: the value of {name} is not a text. Put it in quotes: "{name}": "…".')
    return given


def read_from_aws(sources: Iterable[SecretSource]) -> Read:
    """Return a function that reads these secrets from Secrets Manager and SSM."""
    from aion_core.aws.secrets import DENIED, MISSING, Secrets, SecretUnreadable

    secrets = Secrets()
    # Create boto3's clients here, in one thread, because creating clients is slow and not thread-safe.
    secrets.connect({source.service for source in sources})

    def read(service: str, name: str) -> str:
        try:
            text = secrets.text(service, name)
        except SecretUnreadable as error:
            if error.of_its_key:
                remedy = "Name the KMS key that encrypts it in the template parameter AgentSecretsKey."
                raise ConfigurationError(f"{error.code} to its key. {remedy}") from None
            if error.code == DENIED:
                raise ConfigurationError("AccessDenied. Add its ARN to the template parameter AgentSecrets.") from None
            if error.code in MISSING:
                remedy = "Create it in this region, or correct its name in aion.yaml."
                raise ConfigurationError(f"not found. {remedy}") from None
            raise ConfigurationError(f"AWS returned an error ({error.code or 'unknown error'}).") from None
        if text is None:
            raise ConfigurationError("it is binary, but must be text.")
        return text

    return read
