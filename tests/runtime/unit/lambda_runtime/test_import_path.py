import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aion_core.lambda_runtime.import_path import extend

SITE_PACKAGES = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
NAMES = ("in_code", "in_layer", "in_site_packages", "in_runtime", "beside_pth", "everywhere")


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Path]]:
    """Create folders of code, of a layer (two forms), and of Lambda's packages. Each has a module `everywhere`."""
    made = {
        "code": tmp_path / "task",
        "layer": tmp_path / "opt",
        "site_packages": tmp_path / "opt" / SITE_PACKAGES,
        "runtime": tmp_path / "runtime",
    }
    for name, folder in made.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"in_{name}.py").write_text("")
        (folder / "everywhere.py").write_text(f"FOUND = {name!r}")
    monkeypatch.setattr(sys, "path", [str(made["code"]), *sys.path])
    yield made
    for name in NAMES:
        sys.modules.pop(name, None)


def test_lambda_layers_and_runtime_modules_are_importable(folders: dict[str, Path]) -> None:
    extend(folders["code"], folders["layer"], folders["runtime"])
    for name in ("in_code", "in_layer", "in_site_packages", "in_runtime"):
        importlib.import_module(name)


@pytest.mark.parametrize("gone", [[], ["code"], ["code", "site_packages"], ["code", "site_packages", "layer"]])
def test_modules_of_function_are_preferred_to_layers_and_runtime(folders: dict[str, Path], gone: list[str]) -> None:
    for name in gone:
        (folders[name] / "everywhere.py").unlink()
    extend(folders["code"], folders["layer"], folders["runtime"])
    first = next(name for name in ("code", "site_packages", "layer", "runtime") if name not in gone)
    assert first == importlib.import_module("everywhere").FOUND


@pytest.mark.parametrize("place", ["code", "layer", "site_packages"])
def test_pth_files_extend_python_import_path(folders: dict[str, Path], tmp_path: Path, place: str) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "beside_pth.py").write_text("")
    (folders[place] / "beside.pth").write_text(f"{tmp_path / 'beside'}\n")
    extend(folders["code"], folders["layer"], folders["runtime"])
    importlib.import_module("beside_pth")


def test_missing_layer_folders_do_not_break_imports(folders: dict[str, Path], tmp_path: Path) -> None:
    extend(folders["code"], tmp_path / "none", tmp_path / "nothing")
    importlib.import_module("in_code")
