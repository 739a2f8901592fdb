"""Settings of the runtime loop, from environment variables of Lambda and template.yaml."""

import os
from collections.abc import Mapping
from typing import Self

from msgspec import Struct

APP = "handlers.api:app"
LOG_LEVEL = "WARNING"


class SettingsError(Exception):
    """Error for a missing or invalid environment variable. The message names the variable."""


class RuntimeSettings(Struct, frozen=True):
    """Settings of the runtime loop."""

    runtime_api: str
    app: str = APP
    # Seconds between the cancellation of the app and the deadline of the invocation. A third is for the canceled app, a
    # third for the end of the response, and a third for the request for the next invocation.
    deadline_margin: float = 3.0
    log_level: str = LOG_LEVEL
    function_name: str = ""
    function_version: str = ""
    memory_limit_in_mb: int = 0
    log_group_name: str = ""
    log_stream_name: str = ""
    # True if Lambda takes a snapshot of the environment after its init phase (SnapStart).
    snap_start: bool = False

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """Read the settings from environment variables. Raises SettingsError with the name of the invalid variable."""
        if not environ.get("AWS_LAMBDA_RUNTIME_API"):
            raise SettingsError("AWS_LAMBDA_RUNTIME_API is not set: Lambda or an emulator of its Runtime API sets it")
        return cls(
            runtime_api=environ["AWS_LAMBDA_RUNTIME_API"],
            app=environ.get("AION_ASGI_APP") or APP,
            deadline_margin=_whole_number(environ, "AION_DEADLINE_MARGIN_MS", default=3000) / 1000,
            log_level=environ.get("AWS_LAMBDA_LOG_LEVEL") or LOG_LEVEL,
            function_name=environ.get("AWS_LAMBDA_FUNCTION_NAME", ""),
            function_version=environ.get("AWS_LAMBDA_FUNCTION_VERSION", ""),
            memory_limit_in_mb=_whole_number(environ, "AWS_LAMBDA_FUNCTION_MEMORY_SIZE", default=0),
            log_group_name=environ.get("AWS_LAMBDA_LOG_GROUP_NAME", ""),
            log_stream_name=environ.get("AWS_LAMBDA_LOG_STREAM_NAME", ""),
            snap_start=environ.get("AWS_LAMBDA_INITIALIZATION_TYPE") == "snap-start",
        )


def _whole_number(environ: Mapping[str, str], name: str, *, default: int) -> int:
    value = environ.get(name) or str(default)
    if not value.isdecimal():
        raise SettingsError(f"{name} must be a whole number, not {value!r}")
    return int(value)
