"""Build of a function's Lambda package."""

from pathlib import Path

import pytest

from aion_core.packaging import packages as packaging
from aion_core.packaging.plan import PackagePlan
from aion_core.packaging.programs import BuildError


def test_error_of_large_package_names_largest_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path / "packages"))
    monkeypatch.setattr(packaging, "LAMBDA_LIMIT", 2 * 1024**2)
    for name, size in {"torch": 2, "agent": 0, "data": 1}.items():
        (tmp_path / name).write_bytes(bytes(size * 1024**2))
    files = (("torch/lib.bin", tmp_path / "torch"), ("agent.py", tmp_path / "agent"), ("data.bin", tmp_path / "data"))
    with pytest.raises(BuildError, match=r"has 3 MB; .* largest parts are torch \(2 MB\), data\.bin \(1 MB\)"):
        packaging.packages([PackagePlan("ApiFunction", "arm64", "3.13", "", files)])
