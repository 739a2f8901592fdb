"""Build of a function's Lambda package."""

import os
from pathlib import Path

import pytest
from aion_tools.package.plan import PackagePlan

from aion_tools.package import packages as packaging
from aion_tools.programs import BuildError
from tests.tools.unit.package.wheels import hashed, wheel


def test_error_of_large_package_names_largest_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path / "packages"))
    monkeypatch.setattr(packaging, "LAMBDA_LIMIT", 2 * 1024**2)
    for name, size in {"torch": 2, "agent": 0, "data": 1}.items():
        (tmp_path / name).write_bytes(bytes(size * 1024**2))
    files = (("torch/lib.bin", tmp_path / "torch"), ("agent.py", tmp_path / "agent"), ("data.bin", tmp_path / "data"))
    with pytest.raises(BuildError, match=r"has 3 MB; .* largest parts are torch \(2 MB\), data\.bin \(1 MB\)"):
        packaging.packages([PackagePlan("ApiFunction", "arm64", "3.13", "", files)])


def test_package_size_is_printed_in_megabytes_like_limit(tmp_path: Path) -> None:
    planned = PackagePlan("ApiFunction", "arm64", "3.13", "", ())
    built = packaging.Package(planned, tmp_path, packaging.LAMBDA_LIMIT, None)
    assert str(built).startswith("ApiFunction: 250 MB for arm64")


def test_build_deletes_files_of_unused_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path))
    files = (("own.py", Path(__file__)),)
    used, unused, new = (PackagePlan(name, "arm64", "3.13", "", files) for name in ("Used", "Unused", "New"))
    packaging.packages([used, unused])
    digest = "0123456789abcdef0123"
    names = ("notes.txt", f"TaskFunction-arm64-3.13-{digest}/code/of_failed_build.py", f"requirements-{digest}.txt")
    for name in (*names, f"wheels/{digest}/mine-1.0-py3-none-any.whl", f"generated/{digest}/aion.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for path in tmp_path.rglob("*"):
        os.utime(path, (0, 0))
    (kept, _) = packaging.packages([used, new])
    assert kept.code.is_dir()
    assert {path.name.partition("-")[0] for path in tmp_path.glob("*")} == {
        *("New", "Used", "distributions.lock", "generated", "notes.txt", "wheels")
    }
    assert not [*tmp_path.glob("wheels/*"), *tmp_path.glob("generated/*")]


@pytest.mark.parametrize(
    ("place", "said"), [("mine/__init__.py", "rename mine, or add it to .aionignore"), ("mine/own.py", "")]
)
def test_build_refuses_project_file_that_replaces_file_of_dependency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, said: str
) -> None:
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path / "packages"))
    written = wheel(tmp_path, "mine/__init__.py", "theirs = 1")
    own = tmp_path / "own.py"
    own.write_text("own = 1")
    line = hashed(f"mine @ {written.as_uri()}", written)
    planned = PackagePlan("ApiFunction", "arm64", "3.13", line, ((place, own),))
    if said:
        with pytest.raises(BuildError, match=said):
            packaging.packages([planned])
    else:
        (built,) = packaging.packages([planned])
        assert {each.name for each in (built.code / "mine").glob("*.py")} == {"__init__.py", "own.py"}
