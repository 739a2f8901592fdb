"""Code that needs a newer Python: the error says which, and how to start aion with it."""

import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from aion_core.errors import AgentLoadError
from aion_core.loading.importing.one_module import import_module
from tests.runtime.unit.loading.load_errors.test_explain import isolated, made, written  # noqa: F401  # a fixture
from tests.support.rows import each_row

MINOR = sys.version_info.minor
THIS = f"and this is Python 3.{MINOR}."
NEWER = "Run aion in an environment of Python 3.{} or newer."

SYNTAX = {
    "a type alias": ("type Names = list[str]\n", 12, "The statement `type`"),
    "a generic function": ("def first[T](of: list[T]) -> T: ...\n", 12, "A function's type parameters"),
    "a generic class": ("class Box[T]: ...\n", 12, "A class's type parameters"),
    "nested quotes": ('d = {"k": 1}\nx = f"{d["k"]}"\n', 12, "A quote of the f-string's own kind within its braces"),
    "a backslash": ("x = f\"{'\\n'.join('ab')}\"\n", 12, "A backslash in an f-string's braces"),
    "a comment": ('x = f"""{\n1 # one\n}"""\n', 12, "A comment in an f-string's braces"),
    "a template string": ('x = t"Hello {1}"\n', 14, "A template string"),
    "exceptions without parentheses": (
        "try:\n    pass\nexcept KeyError, ValueError:\n    pass\n",
        14,
        "Several exceptions after `except` without parentheses",
    ),
}
NAMES = {
    "from typing import override": (12, "typing.override"),
    "import itertools\nitertools.batched": (12, "itertools.batched"),
    "import annotationlib": (14, "The module annotationlib"),
    "from string.templatelib import Template": (14, "The module string.templatelib"),
    "import uuid\nuuid.uuid7()": (14, "uuid.uuid7"),
}
CASES = {**SYNTAX, **{line: (f"{line}\n", *needs) for line, needs in NAMES.items()}}


def remedy(folder: Path) -> str:
    with pytest.raises(AgentLoadError) as failed:
        made(folder, "agent.py").load()
    return failed.value.do


@pytest.mark.parametrize("case", CASES)
def test_error_says_which_python_the_code_needs(case: str, tmp_path: Path) -> None:
    code, minor, subject = CASES[case]
    if minor <= MINOR:
        pytest.skip("This Python runs the code.")
    written(tmp_path, {"agent.py": code})
    assert remedy(tmp_path) == f"{subject} needs Python 3.{minor}, {THIS} {NEWER.format(minor)}"


DECLARED = {
    "requires-python": ("pyproject.toml", '[project]\nname = "mine"\nrequires-python = ">=3.99,<4"\n'),
    "python_version": ("langgraph.json", '{"graphs": {"a": "./agent.py:graph"}, "python_version": "3.99"}'),
}
UNKNOWN = {"syntax": "x = 1 ?? 2\n", "a name": "from typing import Overridable\n", "a module": "import os.far\n"}


@each_row("code", UNKNOWN)
@each_row("declared", DECLARED)
def test_error_names_python_that_project_declares(declared: str, code: str, tmp_path: Path) -> None:
    """The syntax and the names of a later Python are not known: the project says that it needs one."""
    file, content = DECLARED[declared]
    written(tmp_path, {"agent.py": UNKNOWN[code], file: content})
    start = "Run `uv python pin 3.99`, then `uv sync`." if "toml" in file else NEWER.format(99)
    assert remedy(tmp_path) == f"{file} requires Python 3.99, {THIS} {start}"


@each_row("declared", [*DECLARED, None])
@each_row(
    ("code", "expected"),
    {
        "x = (\n": "Fix that line, or the line above it.",
        'x = f"{a"\n': "Fix that line, or the line above it.",
        "from typing import Sequnce\n": "Did you mean 'Sequence'?",
        "import cowsay_of_test\n": "Run `uv add cowsay_of_test`.",
        "raise ValueError('no')\n": "Fix that line.",
    }.items(),
)
def test_other_error_is_not_blamed_on_python(code: str, expected: str, declared: str | None, tmp_path: Path) -> None:
    """A declared version that this Python has does not matter, and a third-party package has no Python."""
    written(tmp_path, {"agent.py": code})
    if declared is not None:
        file, content = DECLARED[declared]
        written(tmp_path, {file: content.replace("3.99", f"3.{MINOR}")})
    assert remedy(tmp_path).startswith(expected)


def test_error_under_uvx_names_python_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/home/me/.cache/uv/archive-v0/x7")
    file, content = DECLARED["python_version"]
    written(tmp_path, {"agent.py": UNKNOWN["syntax"], file: content})
    assert "`uvx --python 3.99 --from 'aion-lambda[langgraph,adk,local]' aion dev`." in remedy(tmp_path)


def test_failed_package_is_explained_for_each_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Import two modules of a package in two threads, the package fails: both errors name its line."""
    failing, waiting = threading.Event(), threading.Event()
    gates = ModuleType("gates_of_test")
    gates.__dict__.update(failing=failing, waiting=waiting)
    monkeypatch.setitem(sys.modules, "gates_of_test", gates)
    written(
        tmp_path,
        {
            "package_of_test/__init__.py": (
                "import gates_of_test\ngates_of_test.failing.set()\ngates_of_test.waiting.wait(60)\n"
                "from . import broken\n"
            ),
            "package_of_test/broken.py": "x = (\n",
            "package_of_test/second.py": (
                "import sys, time, gates_of_test\ngates_of_test.waiting.set()\n"
                "while 'package_of_test' in sys.modules:\n    time.sleep(0.001)\n"
            ),
        },
    )
    sys.path.insert(0, str(tmp_path))
    errors: list[BaseException] = []

    def importing(name: str) -> None:
        try:
            import_module(name)
        except BaseException as error:
            errors.append(error)

    first = threading.Thread(target=importing, args=["package_of_test"])
    first.start()
    failing.wait(60)
    importing("package_of_test.second")
    first.join()
    assert [type(error).__name__ for error in errors] == ["SyntaxError", "SyntaxError"]
