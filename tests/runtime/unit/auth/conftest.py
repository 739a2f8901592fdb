"""Fixtures of the authentication tests: an issuer of tokens on a real server, and ApiFunction's app on the emulator."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.types import ASGIApp

import handlers
from aion_tools.stack.stack import LocalStack
from tests.runtime.unit.auth.guarded import jwt_scheme
from tests.support.issuer import Issuer, issuer

__all__ = ["api_function", "issuer"]


@pytest.fixture
def api_function(
    tmp_path: Path, issuer: Issuer, moto: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, str, str], ASGIApp]]:
    """Return a function that builds ApiFunction's app on the emulator from a module name, its code and an aion.yaml.

    The scheme of the issuer's tokens replaces %s in the aion.yaml.
    """

    def make(module: str, agent: str, aion_yaml: str) -> ASGIApp:
        (tmp_path / f"{module}.py").write_text(agent)
        config = tmp_path / "aion.yaml"
        config.write_text(aion_yaml % jwt_scheme(issuer).rstrip("\n"))
        monkeypatch.setattr(sys, "path", sys.path[:])
        monkeypatch.delenv("AWS_PROFILE", raising=False)
        environ = {**moto.environment("ApiFunction"), "AION_CONFIG": str(config), "AION_HTTP_ENTRYPOINTS": "NONE,OFF"}
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delitem(sys.modules, "handlers.api", raising=False)
        monkeypatch.delattr(handlers, "api", raising=False)
        app: ASGIApp = importlib.import_module("handlers.api").app
        return app

    yield make
    sys.modules.pop("handlers.api", None)
