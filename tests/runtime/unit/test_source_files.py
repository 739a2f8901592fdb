"""Source files of a traceback: whose they are, and the line of the agent's author."""

import json
import runpy
from pathlib import Path

import httpx
import pytest

import aion_core
from aion_core.source_files import line_of_author, package_of


@pytest.mark.parametrize(
    ("filename", "package"),
    [
        (str(Path(aion_core.__file__).parent / "log.py"), "aion_core"),
        (str(httpx.__file__), "httpx"),
        (str(json.__file__), "json"),
        ("/elsewhere/lib/python3.13/site-packages/shop/till.py", "shop"),
        ("<frozen importlib._bootstrap>", "Python"),
        ("/home/me/agent.py", ""),
    ],
)
def test_file_belongs_to_package_or_author(filename: str, package: str) -> None:
    assert package_of(filename) == package


def test_line_of_error_is_last_one_of_author(tmp_path: Path) -> None:
    """Let the author's code call a library that raises the error."""
    file = tmp_path / "agent.py"
    file.write_text("import json\n\n\ndef read():\n    return json.loads('{')\n")
    read = runpy.run_path(str(file))["read"]
    with pytest.raises(json.JSONDecodeError) as raised:
        read()
    # This test is the author's code, too; the frame nearest to the error counts.
    assert line_of_author(raised.value) == "agent.py:5"


def test_error_without_frame_of_author_has_no_line() -> None:
    assert line_of_author(ValueError("never raised")) == ""
