"""Values that CloudFormation refuses: at the borders of each constraint, in nested stacks, and by Rules."""

from pathlib import Path

import pytest

from aion_tools.template.constraints import LONGEST_PARAMETER, refusals
from aion_tools.template.names import BUILD_PLACE
from aion_tools.template.reader import Template
from tests.support.server import ROOT

TEMPLATE = """
Parameters:
  Mode: {Type: String, Default: "off", AllowedValues: ["off", "on"]}
  Debug: {Type: String, Default: false, AllowedValues: [true, false]}
  Count: {Type: Number, Default: 2, MinValue: 2, MaxValue: 10, Description: Workers.}
  Name: {Type: String, Default: ab, MinLength: 2, MaxLength: 4, ConstraintDescription: Give two to four letters.}
  Ids: {Type: CommaDelimitedList, Default: "a1,a2", AllowedPattern: "a[0-9]"}
  Java: {Type: String, Default: x, AllowedPattern: "\\\\p{Alpha}+"}
  Password: {Type: String, Default: "****", NoEcho: true, MinLength: 8}
  Vpc: {Type: "AWS::SSM::Parameter::Value<String>", Default: /vpc, AllowedPattern: "vpc-.*"}
  Needed: {Type: String, MinLength: 1}
Rules:
  OnlyOn:
    RuleCondition: !Equals [!Ref Mode, "on"]
    Assertions:
      - {Assert: !Equals [!Ref Count, 3], AssertDescription: Mode=on needs three workers.}
      - {Assert: !Not [!Equals [!Ref Name, none]]}
  Unknown:
    Assertions: [{Assert: !Contains [[a], !Ref Name], AssertDescription: Never evaluated here.}]
Resources: {}
"""


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, []),
        ({"Mode": "on", "Count": "3"}, []),
        ({"Mode": "auto"}, ["Mode: 'auto' is none of off, on."]),
        ({"Debug": "true"}, []),
        ({"Debug": True}, []),
        ({"Debug": "yes"}, ["Debug: 'yes' is none of true, false."]),
        ({"Count": "10"}, []),
        ({"Count": "1"}, ["Count: '1' is not between 2 and 10. Workers."]),
        ({"Count": 11}, ["Count: '11' is not between 2 and 10. Workers."]),
        ({"Count": "two"}, ["Count: 'two' is not a number. Workers."]),
        ({"Name": "abcd"}, []),
        ({"Name": "a"}, ["Name: 'a' has 1 characters, not 2 to 4. Give two to four letters."]),
        ({"Name": "abcde"}, ["Name: 'abcde' has 5 characters, not 2 to 4. Give two to four letters."]),
        ({"Ids": "a1,b2,c3"}, ["Ids: 'b2' does not match a[0-9].", "Ids: 'c3' does not match a[0-9]."]),
        ({"Mode": "on"}, ["Mode=on needs three workers."]),
        ({"Mode": "on", "Count": 3, "Name": "none"}, ["A rule of the template is not fulfilled: OnlyOn."]),
    ],
)
def test_value_is_refused_as_by_cloudformation(given: dict[str, object], told: list[str], tmp_path: Path) -> None:
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    assert refusals(Template(tmp_path / "template.yaml", BUILD_PLACE, given)) == told


@pytest.mark.parametrize(("size", "told"), [(0, []), (1, [f"has {LONGEST_PARAMETER + 1} bytes, and CloudFormation"])])
def test_parameter_has_limit_in_bytes(size: int, told: list[str]) -> None:
    arn = "arn:aws:bedrock:eu-west-1::foundation-model/"
    models = arn + "m" * (LONGEST_PARAMETER - len(arn) + size)
    found = refusals(Template(ROOT / "template.yaml", BUILD_PLACE, {"BedrockModels": models}))
    assert [words in each for words, each in zip(told, found, strict=True)] == [True] * len(told)


NESTED = """
Parameters:
  Has: {Type: String, Default: "no"}
Conditions: {Has: !Equals [!Ref Has, "yes"]}
Resources:
  Queue: {Type: "AWS::SQS::Queue"}
  Nested:
    Type: AWS::CloudFormation::Stack
    Condition: Has
    Properties: {TemplateURL: nested.yaml, Parameters: {Mode: auto, Name: !GetAtt Queue.Unknown}}
"""


@pytest.mark.parametrize(("has", "told"), [("no", []), ("yes", ["Mode: 'auto' is none of off, on."])])
def test_nested_stack_is_checked_only_if_made(has: str, told: list[str], tmp_path: Path) -> None:
    """Leave out the value that only AWS knows."""
    (tmp_path / "template.yaml").write_text(NESTED)
    (tmp_path / "nested.yaml").write_text(TEMPLATE)
    assert refusals(Template(tmp_path / "template.yaml", BUILD_PLACE, {"Has": has})) == told
