"""Settings from environment variables."""

from collections.abc import Callable

import pytest

from aion_core.environment import EnvironmentReader
from aion_core.errors import ConfigurationError
from aion_core.settings import DEVELOPMENT, Settings
from tests.support.rows import each_row

DEPLOYED = {"AION_TABLE": "table", "AION_BUCKET": "bucket", "AION_TASK_QUEUE_URL": "https://sqs/queue"}


def test_settings_other_than_aws_resources_have_defaults() -> None:
    settings = Settings.from_environ(DEPLOYED)
    assert (settings.store, settings.table, settings.bucket) == ("dynamodb", "table", "bucket")
    assert settings.task_queue_url == "https://sqs/queue"
    assert (settings.lease_seconds, settings.max_tries, settings.blocking_wait) == (30.0, 3, 240.0)


@pytest.mark.parametrize("name", DEPLOYED)
def test_settings_error_names_missing_variable(name: str) -> None:
    environ = {key: value for key, value in DEPLOYED.items() if key != name}
    with pytest.raises(ConfigurationError, match=name):
        Settings.from_environ(environ)
    assert Settings.from_environ({**environ, "AION_STORE": "memory"}).store == "memory"


@each_row(
    ("name", "value"),
    [
        *(("AION_MAX_TRIES", value) for value in ("0", "-1", "2.5", "many", "²")),
        *(("AION_LEASE_SECONDS", value) for value in ("0", "-1", "nan", "inf", "soon")),
        ("AION_STORE", "postgres"),
        *(("AION_BASE_URL", value) for value in ("agents.example.com", "ftp://example.com", "https://", "https://a b")),
        ("AION_BASE_URL", "https://example.com/#prod"),
        ("AION_CARD_KEY_URL", "keys.json"),
    ],
)
def test_settings_error_names_variable_with_invalid_value(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is {value!r}"):
        Settings.from_environ({**DEPLOYED, name: value})


def words() -> dict[str, tuple[str, ...]]:
    """Return the variables that are one of several words, with these words, as the settings read them."""
    found: dict[str, tuple[str, ...]] = {}
    read = EnvironmentReader.one_of

    def noted(reader: EnvironmentReader, name: str, choices: tuple[str, ...]) -> str:
        found[name] = choices
        return read(reader, name, choices)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EnvironmentReader, "one_of", noted)
        Settings.from_environ(DEPLOYED)
    return found


@each_row("spelled", [str.upper, str.title])
@each_row(("name", "word"), [(name, word) for name, choices in words().items() for word in choices])
def test_words_of_settings_have_any_letter_case(name: str, word: str, spelled: Callable[[str], str]) -> None:
    assert Settings.from_environ({**DEPLOYED, name: spelled(word)}) == Settings.from_environ({**DEPLOYED, name: word})


def test_max_tries_setting_is_read_as_whole_number() -> None:
    assert Settings.from_environ({**DEPLOYED, "AION_MAX_TRIES": "7"}).max_tries == 7


ON_LAMBDA = {**DEPLOYED, "AWS_LAMBDA_FUNCTION_NAME": "api"}
DEVELOPERS = {
    "AION_STORE": "memory",
    "AION_LOCAL_ENVIRONMENT": '{"KEY": "hidden"}',
    "AION_PUSH_HTTP": "true",
    "AION_PUSH_NETWORKS": "10.0.0.0/8",
    "AION_LOOPBACK_ORIGINS": "true",
    "AION_REVEAL_ERRORS": "true",
    "AION_TRACE": "on",
    "AION_AUTH": "off",
}


@each_row("spelled", [str.lower, str.upper, str.title])
@each_row("name", [*DEVELOPMENT, "AION_AUTH"])
def test_function_on_aws_refuses_development_variable(name: str, spelled: Callable[[str], str]) -> None:
    chosen = {name: spelled(DEVELOPERS[name])}
    with pytest.raises(ConfigurationError, match=f"{name} is .*, but a deployed function refuses .*: it .*[.]") as told:
        Settings.from_environ({**ON_LAMBDA, **chosen})
    assert "hidden" not in str(told.value).lower()
    assert Settings.from_environ({**ON_LAMBDA, name: ""}) == Settings.from_environ(ON_LAMBDA)
    for here in ({"AWS_SAM_LOCAL": "true"}, {"AWS_LAMBDA_FUNCTION_NAME": ""}):
        Settings.from_environ({**ON_LAMBDA, **chosen, **here})


@each_row(
    ("name", "value"),
    [
        ("AION_STORE", "dynamodb"),
        ("AION_PUSH_HTTP", "false"),
        ("AION_LOOPBACK_ORIGINS", "False"),
        ("AION_REVEAL_ERRORS", "false"),
        ("AION_TRACE", "OFF"),
        ("AION_AUTH", "on"),
    ],
)
def test_function_on_aws_accepts_written_out_default(name: str, value: str) -> None:
    assert Settings.from_environ({**ON_LAMBDA, name: value}) == Settings.from_environ(ON_LAMBDA)


@each_row(
    ("endpoint", "is_emulated"),
    [
        ("http://127.0.0.1:4566", True),
        ("http://[::1]:4566", True),
        ("http://172.31.251.1:4566", True),
        ("http://10.0.0.5", True),
        ("http://[fd00::1]:4566", True),
        ("http://localhost:4566", True),
        ("http://host.docker.internal:4566", True),
        ("", False),
        ("https://dynamodb.eu-west-1.amazonaws.com", False),
        ("https://vpce-0a1b2c-3d4e5f.dynamodb.eu-west-1.vpce.amazonaws.com", False),
        ("https://10.0.0.5.example.com", False),
        ("http://localhost.example.com:4566", False),
        ("http://52.94.5.1", False),
        ("http://172.32.0.1:4566", False),
        ("10.0.0.5", False),
        ("http://[::1", False),
    ],
)
def test_emulated_aws_is_at_address_of_this_machine(endpoint: str, is_emulated: bool) -> None:
    environ = {**ON_LAMBDA, "AION_STORE": "memory", "AWS_ENDPOINT_URL": endpoint}
    if is_emulated:
        assert Settings.from_environ(environ).store == "memory"
    else:
        with pytest.raises(ConfigurationError, match="AION_STORE is set"):
            Settings.from_environ(environ)


def test_function_with_store_in_memory_runs_only_in_invocations() -> None:
    sam = {"AWS_SAM_LOCAL": "true", "AWS_LAMBDA_FUNCTION_NAME": "api"}
    assert Settings.from_environ({**sam, "AION_STORE": "memory"}).only_in_invocations
    assert not Settings.from_environ({**sam, **DEPLOYED}).only_in_invocations
    assert not Settings.from_environ({"AION_STORE": "memory"}).only_in_invocations
    with pytest.raises(ConfigurationError, match="AION_STORE is sqlite"):
        Settings.from_environ({**sam, "AION_STORE": "sqlite"})


@pytest.mark.parametrize(
    ("here", "remedy"),
    [
        ({}, "`aion dev`"),
        ({"AWS_LAMBDA_FUNCTION_NAME": "api"}, "`sam deploy`"),
        (
            {"AWS_LAMBDA_FUNCTION_NAME": "api", "AWS_SAM_LOCAL": "true"},
            "`sam build && sam local start-api`.*`aion sam-local`",
        ),
    ],
)
def test_missing_variables_remedy_fits_place_of_process(here: dict[str, str], remedy: str) -> None:
    with pytest.raises(ConfigurationError, match=f"AION_TABLE is missing.*{remedy}"):
        Settings.from_environ(here)
