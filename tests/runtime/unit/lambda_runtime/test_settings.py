import pytest

from aion_core.lambda_runtime.settings import RuntimeSettings, SettingsError
from tests.support.rows import each_row


def test_missing_runtime_variables_have_defaults() -> None:
    assert RuntimeSettings.from_environ({"AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001"}) == RuntimeSettings(
        runtime_api="127.0.0.1:9001",
        app="handlers.api:app",
        deadline_margin=3.0,
        log_level="WARNING",
        function_name="",
        function_version="",
        memory_limit_in_mb=0,
        log_group_name="",
        log_stream_name="",
    )


def test_environment_variables_set_asgi_app_and_deadline_margin() -> None:
    settings = RuntimeSettings.from_environ(
        {"AWS_LAMBDA_RUNTIME_API": "a:1", "AION_ASGI_APP": "my.module:app", "AION_DEADLINE_MARGIN_MS": "1500"}
    )
    assert (settings.app, settings.deadline_margin) == ("my.module:app", 1.5)


@each_row(
    ("environ", "named"),
    [
        ({}, "AWS_LAMBDA_RUNTIME_API"),
        ({"AWS_LAMBDA_RUNTIME_API": ""}, "AWS_LAMBDA_RUNTIME_API"),
        ({"AWS_LAMBDA_RUNTIME_API": "a:1", "AION_DEADLINE_MARGIN_MS": "-1"}, "AION_DEADLINE_MARGIN_MS"),
        ({"AWS_LAMBDA_RUNTIME_API": "a:1", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "?"}, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE"),
    ],
)
def test_runtime_settings_error_names_invalid_variable(environ: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        RuntimeSettings.from_environ(environ)
