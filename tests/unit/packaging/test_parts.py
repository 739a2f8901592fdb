"""Parts of Lambda packages, one for each distribution."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from aion_core.packaging.parts import install
from aion_core.packaging.plan import PackagePlan


def test_package_from_index_named_in_pyproject_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path / "packages"))
    wheel = tmp_path / "index" / "mine" / "mine-1.0-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("mine.py", "")
        archive.writestr("mine-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
        archive.writestr("mine-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("mine-1.0.dist-info/RECORD", "mine.py,,\n")
    (wheel.parent / "index.html").write_text(f'<a href="{wheel.name}">{wheel.name}</a>')
    (tmp_path / "pyproject.toml").write_text(
        f"[tool.uv]\nindex = [{{ name = 'own', url = '{(tmp_path / 'index').as_uri()}', explicit = true }}]\n"
        "sources = { mine = { index = 'own' } }\n"
    )
    line = f"mine==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}"
    (code,) = install(PackagePlan("ApiFunction", "arm64", "3.13", line, (), folder=tmp_path))
    assert (code / "mine.py").is_file()
