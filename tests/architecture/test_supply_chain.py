"""The bill of materials holds what is shipped, and an audit that did not happen is not taken for a clean one."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from infra import supply_chain
from infra.supply_chain import NotAudited, Vulnerable, first_answer, judged, write_sbom

CLEAN = '{"dependencies": [{"name": "idna", "version": "3.10", "vulns": []}], "fixes": []}'
FOUND = (
    '{"dependencies": [{"name": "idna", "version": "3.6", "vulns": [{"id": "PYSEC-2024-60", "fix_versions": ["3.7"], '
    '"aliases": ["CVE-2024-3651"], "description": "…"}]}], "fixes": []}'
)
LEFT_OUT = '{"dependencies": [{"name": "ours", "skip_reason": "not on PyPI"}], "fixes": []}'


def test_the_bill_of_materials_holds_what_is_shipped_as_it_is_locked(tmp_path: Path) -> None:
    """R97."""
    bill = json.loads(write_sbom(tmp_path / "sbom.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    parts = {part["name"]: part["version"] for part in bill["components"]}
    lock = tomllib.loads((supply_chain.ROOT / "uv.lock").read_text())
    locked = {package["name"]: package.get("version") for package in lock["package"]}
    for shipped in ("a2a-sdk", "langgraph", "google-adk", "boto3", "pyjwt", "fastapi"):
        assert parts[shipped] == locked[shipped]
    assert not {"pytest", "moto", "ruff"} & parts.keys()
    assert all(part.get("purl", "").startswith("pkg:pypi/") for part in bill["components"])


def test_a_vulnerability_is_told_with_its_mend() -> None:
    assert judged(CLEAN, "") == []
    (found,) = judged(FOUND, "")
    assert found == Vulnerable("idna", "3.6", "PYSEC-2024-60", ("3.7",))
    assert str(found) == "idna 3.6: PYSEC-2024-60, fixed in 3.7"


@pytest.mark.parametrize("told", ["", "no json", "[]", LEFT_OUT])
def test_no_answer_is_no_clean_bill(told: str) -> None:
    with pytest.raises(NotAudited):
        judged(told, "ERROR:pip_audit: the service cannot be reached")


def test_of_many_packages_that_are_left_out_the_first_says_why() -> None:
    left_out = [{"name": f"n{n}", "skip_reason": f"n{n} is not there"} for n in range(200)]
    with pytest.raises(NotAudited, match=r"^it left out 200 of 201 packages, the first because: n0 is not there$"):
        judged(json.dumps({"dependencies": [*left_out, *json.loads(CLEAN)["dependencies"]]}), "")


def test_another_service_is_asked_where_one_does_not_know_every_package() -> None:
    """R97: a mirror of PyPI that has the packages only is no reason to know nothing."""
    asked: list[str] = []

    def only(answering: str) -> Callable[[str], list[Vulnerable]]:
        def ask(service: str) -> list[Vulnerable]:
            asked.append(service)
            return judged(FOUND if service == answering else LEFT_OUT, "")

        return ask

    assert [each.id for each in first_answer(only("pypi"))] == ["PYSEC-2024-60"]
    assert [each.id for each in first_answer(only("osv"))] == ["PYSEC-2024-60"]
    assert asked == ["pypi", "pypi", "osv"]
    with pytest.raises(NotAudited, match=r"(?s)pypi: it left out 1 of 1.*osv: it left out 1 of 1"):
        first_answer(only("nobody"))


@pytest.mark.parametrize(("required", "status"), [("", 0), ("required", 1)])
def test_an_audit_that_did_not_happen_is_said_loudly(
    required: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unreachable() -> list[Vulnerable]:
        raise NotAudited("no network")

    monkeypatch.setattr(supply_chain, "audit", unreachable)
    monkeypatch.setenv("AUDIT", required)
    assert supply_chain.main() == status
    assert "THE LOCK WAS NOT AUDITED" in capsys.readouterr().err
    monkeypatch.setattr(supply_chain, "audit", lambda: judged(FOUND, ""))
    assert supply_chain.main() == 1
