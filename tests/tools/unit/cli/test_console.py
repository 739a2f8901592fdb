"""`aion console` before its server starts: arguments, port, and a server that doesn't answer."""

import pytest
from click.testing import CliRunner

from aion_core.errors import ConfigurationError
from aion_tools.cli.console import _listen, console
from tests.support import operating


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Missing argument 'URL'"),
        (("localhost:8000",), "'localhost:8000' has to be an http or https URL"),
        (("ftp://127.0.0.1",), "has to be an http or https URL"),
        (("http://127.0.0.1:9", "--header", "X-API-Key"), "'X-API-Key' has to be a header"),
        (("http://127.0.0.1:9", "--header", "X Key: 1"), "has to be a header"),
        (("http://127.0.0.1:9", "--header", "X-Key: a\r\nX-Other: b"), "has to be a header"),
        (("http://127.0.0.1:9", "--port", "70000"), "70000 is not in the range"),
    ],
)
def test_wrong_arguments_are_explained(arguments: tuple[str, ...], said: str) -> None:
    done = CliRunner().invoke(console, arguments)
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def test_server_that_does_not_answer_ends_command() -> None:
    done = CliRunner().invoke(console, ["http://127.0.0.1:9", "--no-open", "--port", "0"])
    assert done.exit_code == 1
    assert "The agent at http://127.0.0.1:9 doesn't answer: " in done.stderr
    assert "Check the URL, and that its server is running." in done.stderr


def test_taken_port_is_an_error_only_if_it_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with operating.taken_port() as port:
        with pytest.raises(ConfigurationError, match=f"Port {port} cannot be used .* --port"):
            _listen(port)
        monkeypatch.setattr("aion_tools.cli.console.PORT", port)
        with _listen(None) as listener:
            assert listener.getsockname()[1] not in (0, port)
