"""A package cache for each test, and a package index."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tools.unit.package.wheels import index


@pytest.fixture(autouse=True)
def packages_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(folder))
    return folder


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """Return the folder of the distributions of `served`."""
    (tmp_path / "served").mkdir()
    return tmp_path / "served"


@pytest.fixture
def served(wheels: Path) -> Iterator[str]:
    """Yield the URL of a package index that serves the folder `wheels`."""
    with index(wheels) as url:
        yield url
