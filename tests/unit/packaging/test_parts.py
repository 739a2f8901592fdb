"""Parts of Lambda packages, one for each distribution."""

from pathlib import Path

import pytest

from aion_core.packaging.parts import install
from aion_core.packaging.plan import PackagePlan
from tests.unit.packaging.wheels import hashed, wheel


def test_package_from_index_named_in_pyproject_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path / "packages"))
    written = wheel(tmp_path / "index" / "mine")
    (written.parent / "index.html").write_text(f'<a href="{written.name}">{written.name}</a>')
    (tmp_path / "pyproject.toml").write_text(
        f"[tool.uv]\nindex = [{{ name = 'own', url = '{(tmp_path / 'index').as_uri()}', explicit = true }}]\n"
        "sources = { mine = { index = 'own' } }\n"
    )
    line = hashed("mine==1.0", written)
    (code,) = install(PackagePlan("ApiFunction", "arm64", "3.13", line, (), folder=tmp_path))
    assert (code / "mine.py").is_file()
