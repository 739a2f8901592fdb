"""Settings from environment variables."""

import pytest

from aion_core.errors import ConfigurationError
from aion_core.settings import Settings

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


@pytest.mark.parametrize(
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


def test_max_tries_setting_is_read_as_whole_number() -> None:
    assert Settings.from_environ({**DEPLOYED, "AION_MAX_TRIES": "7"}).max_tries == 7
