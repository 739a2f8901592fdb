"""The variables of agents' code, put into the process's environment before that code is imported, and kept current.

Only functions that run agents build this: the others have no need of a model's key, and their roles may not read it.
"""

import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from aion_core import log
from aion_core.agents.config import DeploymentConfig
from aion_core.agents.config_sections import SecretSource
from aion_core.errors import ConfigurationError
from aion_core.ports import Clock
from aion_core.settings import Settings

logger = logging.getLogger(__name__)

REFRESH = timedelta(minutes=5)
"""Age at which secrets are read again."""
BETWEEN_TRIES = timedelta(seconds=30)
"""Time until they are read once more after some could not be."""
STALE = timedelta(minutes=30)
"""Age at which a secret that cannot be read again is an error in the log, which an alarm counts, not a warning."""

_AT_ONCE = 16

Read = Callable[[str, str], str]
"""Returns the text of a secret by its service and name; blocking, called by several threads.

Raises ConfigurationError that names the remedy, and holds nothing of the secret.
"""
Start = Callable[[Callable[[], None]], None]
"""Runs some work beside the turn that has noticed that it is due."""


def _in_a_thread(work: Callable[[], None]) -> None:
    # A thread of its own: abandoned synchronous nodes starve the default executor, and nothing waits for this one.
    threading.Thread(target=work, name="secrets", daemon=True).start()


class AgentEnvironment:
    """The variables that aion.yaml declares for agents' code, in `environ`.

    A variable that is set there already stays as it is, and its secret is not read; one that is empty counts as not set.
    """

    def __init__(
        self,
        declared: DeploymentConfig,
        clock: Clock,
        read: Read | None,
        *,
        environ: MutableMapping[str, str] | None = None,
        start: Start = _in_a_thread,
    ) -> None:
        """`read` is None where no secret is to be read."""
        self._declared, self._clock, self._read = declared, clock, read
        self._environ = os.environ if environ is None else environ
        self._start = start
        self._sources: dict[str, SecretSource] = {}
        self._values: dict[str, str] = {}
        self._lock = threading.Lock()
        self._again_at = self._read_at = clock.now()
        self._newest = 0

    def apply(self) -> None:
        """Set the variables; blocking, for as long as the slowest secret takes.

        Raises ConfigurationError with a sentence for each secret that cannot be read or used.
        """
        for name, value in self._declared.environment.items():
            self._environ.setdefault(name, value)
        missing = {name: source for name, source in self._declared.secrets.items() if not self._environ.get(name)}
        if missing and self._read is None:
            logger.warning("Not set, as secrets are not read here: %s.", ", ".join(missing))
        elif missing:
            self._sources = missing
            values, problems = self._values_now()
            if problems:
                raise ConfigurationError("\n".join(problems))
            self._read_at = self._clock.now()
            self._again_at = self._read_at + REFRESH
            self._set(values)
        # Also those that a developer's .env has set.
        log.always_keep_out(*(self._environ[name] for name in self._declared.secrets if name in self._environ))

    @property
    def has_secrets(self) -> bool:
        """True if a variable holds a secret that was read."""
        return bool(self._sources)

    def refresh_if_due(self) -> None:
        """Begin to read the secrets again where they are old enough; return at once.

        A changed value replaces the variable's. A secret that cannot be read keeps the value that it has.
        """
        if not self.has_secrets:
            return
        with self._lock:
            now = self._clock.now()
            if now < self._again_at:
                return
            self._again_at = now + BETWEEN_TRIES
            self._newest += 1
            number = self._newest
        self._start(lambda: self._refresh(number))

    def _refresh(self, number: int) -> None:
        try:
            values, problems = self._values_now()
        except Exception:  # a thread that dies of it would print it past the log's redaction
            logger.exception("The agents' secrets could not be read again.")
            return
        now = self._clock.now()
        with self._lock:
            if number != self._newest:
                # Lambda froze this thread with its environment, and another has read them since.
                return
            self._set(values)
            is_stale = now - self._read_at > STALE
            if not problems:
                self._read_at, self._again_at = now, now + REFRESH
        level = logging.ERROR if is_stale else logging.WARNING
        for problem in problems:
            logger.log(level, "Its last value stays in use. %s", problem)

    def _set(self, values: Mapping[str, str]) -> None:
        # Before any agent can have them, so that no line holds them.
        log.always_keep_out(*values.values())
        for name, value in values.items():
            if value == self._values.get(name):
                continue
            if name in self._values:
                logger.info(
                    "The secret %s has changed, and %s with it. A client that was made before has the old value.",
                    self._sources[name],
                    name,
                )
            self._values[name] = self._environ[name] = value

    def _values_now(self) -> tuple[dict[str, str], list[str]]:
        """Read each secret once, all at the same time; return the values by their variables, and what is wrong."""
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
        assert self._read is not None  # noqa: S101  # there are sources only with it
        try:
            return self._read(*place)
        except ConfigurationError as error:
            return error


def _value(text: str, source: SecretSource) -> str:
    """Return the variable's value; raises ConfigurationError, which holds nothing of the text."""
    # `--secret-string file://key` takes the file's last line break along, which no HTTP header may hold.
    value = _member(text, source.key) if source.key else text.removesuffix("\n").removesuffix("\r")
    if not value:
        raise ConfigurationError("it is empty. Put a value into it.")
    try:
        encoded = value.encode()
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise ConfigurationError("it holds a character that no environment variable can hold.")
    return value


def _member(text: str, key: str) -> str:
    try:
        held = json.loads(text)
    except ValueError:
        held = None
    if not isinstance(held, dict):
        # Without the parser's own sentence, which holds the text.
        raise ConfigurationError(
            f"it is no JSON object, and its key {key!r} is asked for. Mend it, or leave #{key} out."
        )
    if key not in held:
        raise ConfigurationError(f"its JSON object has no key {key!r}. Mend the key in aion.yaml, or add it there.")
    value = held[key]
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return json.dumps(value)
    raise ConfigurationError(f"its key {key!r} holds neither text nor a number.")


def agent_environment(declared: DeploymentConfig, settings: Settings, clock: Clock) -> AgentEnvironment:
    """Return the environment of agents' code in this process, with secrets from AWS as far as the settings say so."""
    is_needed = settings.secrets and not all(os.environ.get(name) for name in declared.secrets)
    return AgentEnvironment(declared, clock, read_from_aws(declared.secrets.values()) if is_needed else None)


def read_from_aws(sources: Iterable[SecretSource]) -> Read:
    """Return what reads these secrets from Secrets Manager and SSM, as the function's role."""
    from aion_core.aws.secrets import DENIED, MISSING, Secrets, SecretUnreadable

    secrets = Secrets()
    # Made here, by one thread: making boto3's clients is slow, and not safe in several.
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
                remedy = "Create it in this region, or mend its name in aion.yaml."
                raise ConfigurationError(f"not found. {remedy}") from None
            raise ConfigurationError(f"AWS does not return it ({error.code or 'unknown error'}).") from None
        if text is None:
            raise ConfigurationError("it holds bytes, and has to hold text.")
        return text

    return read
