"""Each source file has a test file of its own name, or a line in `tests/mirrors.toml` with the test file that is its own."""

import subprocess

from scripts.nearest import MIRRORS, ROOT, mirror_of, named_tests

NAMED = named_tests()


def sources() -> list[str]:
    """Return the source files with code of their own."""
    listed = subprocess.run(["git", "ls-files", *MIRRORS], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [
        name
        for name in listed.splitlines()
        if name.endswith(".py")
        and not name.endswith("__init__.py")
        and "/project/files/" not in name
        and (ROOT / name).is_file()
    ]


def test_each_source_file_has_mirror_or_named_test() -> None:
    missing = [name for name in sources() if name not in NAMED and not (ROOT / mirror_of(name)).is_file()]
    assert missing == [], "Write the mirror, or name the test file in tests/mirrors.toml."


def test_named_test_exists_and_is_needed() -> None:
    gone = [source for source in NAMED if not (ROOT / source).is_file()]
    assert gone == [], "The source file has gone: remove its line from tests/mirrors.toml."
    assert [test for test in NAMED.values() if not (ROOT / test).is_file()] == []
    mirrored = [source for source in NAMED if (ROOT / mirror_of(source)).is_file()]
    assert mirrored == [], "The source file has a mirror: remove its line."
