"""Supply chain: the software bill of materials lists the shipped packages; an audit without a result fails."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import supply_chain
from scripts.supply_chain import NotAudited, Vulnerable, first_answer, vulnerabilities, write_sbom

CLEAN = '{"dependencies": [{"name": "idna", "version": "3.10", "vulns": []}], "fixes": []}'
FOUND = (
    '{"dependencies": [{"name": "idna", "version": "3.6", "vulns": [{"id": "PYSEC-2024-60", "fix_versions": ["3.7"], '
    '"aliases": ["CVE-2024-3651"], "description": "…"}]}], "fixes": []}'
)
SKIPPED = '{"dependencies": [{"name": "ours", "skip_reason": "not on PyPI"}], "fixes": []}'


def test_bill_of_materials_has_shipped_locked_packages(tmp_path: Path) -> None:
    bill = json.loads(write_sbom(tmp_path / "sbom.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    parts = {part["name"]: part["version"] for part in bill["components"]}
    lock = tomllib.loads((supply_chain.ROOT / "uv.lock").read_text())
    locked = {package["name"]: package.get("version") for package in lock["package"]}
    for shipped in ("a2a-sdk", "langgraph", "google-adk", "boto3", "pyjwt", "fastapi"):
        assert parts[shipped] == locked[shipped]
    assert not {"pytest", "moto", "ruff"} & parts.keys()
    assert all(part.get("purl", "").startswith("pkg:pypi/") for part in bill["components"])


def test_printed_vulnerability_names_version_with_fix() -> None:
    assert vulnerabilities(CLEAN, "") == []
    (found,) = vulnerabilities(FOUND, "")
    assert found == Vulnerable("idna", "3.6", "PYSEC-2024-60", ("3.7",))
    assert str(found) == "idna 3.6: PYSEC-2024-60, fixed in 3.7"


@pytest.mark.parametrize("report", ["", "no json", "[]", SKIPPED])
def test_vulnerability_audit_without_readable_report_raises_not_audited(report: str) -> None:
    with pytest.raises(NotAudited):
        vulnerabilities(report, "ERROR:pip_audit: the service cannot be reached")


def test_vulnerability_audit_error_says_why_first_package_was_skipped() -> None:
    skipped = [{"name": f"n{n}", "skip_reason": f"n{n} is not there"} for n in range(200)]
    with pytest.raises(NotAudited, match=r"^200 of 201 packages skipped; first reason: n0 is not there$"):
        vulnerabilities(json.dumps({"dependencies": [*skipped, *json.loads(CLEAN)["dependencies"]]}), "")


def test_vulnerability_audit_asks_osv_if_pypi_gives_no_result() -> None:
    """Ask OSV if PyPI gives no result: a mirror of PyPI may not list vulnerabilities."""
    asked: list[str] = []

    def only(answering: str) -> Callable[[str], list[Vulnerable]]:
        def ask(service: str) -> list[Vulnerable]:
            asked.append(service)
            return vulnerabilities(FOUND if service == answering else SKIPPED, "")

        return ask

    assert [each.id for each in first_answer(only("pypi"))] == ["PYSEC-2024-60"]
    assert [each.id for each in first_answer(only("osv"))] == ["PYSEC-2024-60"]
    assert asked == ["pypi", "pypi", "osv"]
    with pytest.raises(NotAudited, match=r"(?s)pypi: 1 of 1 packages skipped.*osv: 1 of 1 packages skipped"):
        first_answer(only("nobody"))


@pytest.mark.parametrize(("required", "status"), [("", 0), ("required", 1)])
def test_failed_audit_prints_warning_to_stderr(
    required: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable() -> list[Vulnerable]:
        raise NotAudited("no network")

    monkeypatch.setattr(supply_chain, "audit", unreachable)
    monkeypatch.setenv("AUDIT", required)
    assert supply_chain.main() == status
    assert "THE LOCK WAS NOT AUDITED" in capsys.readouterr().err
    monkeypatch.setattr(supply_chain, "audit", lambda: vulnerabilities(FOUND, ""))
    assert supply_chain.main() == 1
