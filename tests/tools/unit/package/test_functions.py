"""The functions of the template, and aion-lambda's requirements for each of them."""

from packaging.requirements import Requirement

from aion_tools.package.functions import FUNCTION_EXTRAS, Target, required_by
from aion_tools.template.names import BUILD_PLACE
from aion_tools.template.names import FUNCTION as FUNCTION_TYPE
from aion_tools.template.reader import Template
from tests.support.server import ROOT


def test_extra_that_includes_another_extra_is_resolved_to_requirements() -> None:
    api = required_by("api")
    assert {line.split(">")[0].split("~")[0] for line in api} >= {"a2a-sdk[http-server]", "boto3", "fastapi", "httpx"}
    assert not any(line.startswith("aion-lambda") or "moto" in line for line in api)
    assert any(line.startswith("pydantic") for line in required_by())


def test_each_function_of_template_has_extras() -> None:
    functions = Template(ROOT / "template.yaml", BUILD_PLACE).resources(FUNCTION_TYPE)
    assert set(FUNCTION_EXTRAS) == set(functions)


def test_marker_is_evaluated_for_target() -> None:
    arm, x86 = (Target(name, "3.13") for name in ("arm64", "x86_64"))
    for line, included in {
        "a ; platform_machine == 'aarch64'": [arm],
        "a ; sys_platform == 'linux' and python_version >= '3.13'": [arm, x86],
        "a ; sys_platform == 'win32' or python_full_version < '3.12.1'": [],
        "a ; extra == 'b'": [],
    }.items():
        assert [target for target in (arm, x86) if target.includes(Requirement(line))] == included, line
    assert arm.includes(Requirement("a ; extra == 'b'"), "b")
