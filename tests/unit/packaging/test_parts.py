"""Parts of Lambda packages, one for each distribution."""

from dataclasses import replace
from pathlib import Path

import pytest

from aion_core.packaging.parts import install
from aion_core.packaging.plan import PackagePlan, plan
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


def test_requirements_txt_of_a_distribution_is_packaged_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Install `mine` from its own index, and then `other`, with an option that contains a password."""
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path / "packages"))
    (tmp_path / "pyproject.toml").write_text(
        f"[tool.uv]\nindex = [{{ name = 'own', url = '{tmp_path.as_uri()}' }}]\nsources = {{ mine = {{ index = 'own' }} }}\n"
    )
    lines = ["--extra-index-url http://user:password@127.0.0.1:9/"]
    for name, module in (("mine", "requirements.txt"), ("other", "other.py")):
        written = wheel(tmp_path, module, "theirs", name)
        lines.append(hashed(f"{name} @ {written.as_uri()}", written))
    (code, _) = install(PackagePlan("ApiFunction", "arm64", "3.13", "\n".join(lines), (), folder=tmp_path))
    assert (code / "requirements.txt").read_text() == "theirs"


def test_index_options_of_requirements_txt_apply_to_all_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path / "packages"))
    folder = tmp_path / "project"
    written = wheel(folder / "ours")
    (folder / "more").mkdir()
    (folder / "more" / "indexes.txt").write_text("-r ../requirements.txt\n--find-links=../ours # ours\n")
    (folder / "requirements.txt").write_text("-f ${OTHER}\n-r more/indexes.txt\nmine==1.0\nlanggraph\n")
    (folder / "agent.py").write_text("import mine\nfrom langgraph.graph import StateGraph\n")
    (folder / "aion.yaml").write_text("aion: {agents: {mine: {path: agent.py}}}")
    monkeypatch.setenv("OTHER", folder.as_uri())
    options = f"-f ${{OTHER}}\n--find-links {folder / 'ours'}\n"
    for function in ("TaskFunction", "SweepFunction"):
        planned = plan(function, folder=folder)
        assert planned.requirements.startswith(options)
        (code,) = install(replace(planned, requirements=options + hashed("mine==1.0", written)))
        assert (code / "mine.py").is_file()
