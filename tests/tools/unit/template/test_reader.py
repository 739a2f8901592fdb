"""Template reader: it resolves a template as CloudFormation does."""

import re
from pathlib import Path
from typing import Any

import pytest

from aion_tools.template.reader import Place, Template, TemplateError

PLACE = Place(account="111122223333", region="eu-west-1", endpoint="http://127.0.0.1:4566", stack_name="mine")

DOCUMENT = """
Parameters:
  Stage: {Type: String, Default: dev}
  Size: {Type: Number, Default: 7}
  Zones: {Type: CommaDelimitedList, Default: "a,b,c"}
  Secret: {Type: String}
Mappings:
  Limits: {dev: {retries: 3}, "7": {retries: 4}}
Conditions:
  IsDev: !Equals [!Ref Stage, dev]
  IsProd: !Equals [!Ref Stage, prod]
  IsKnown: !Or [!Condition IsDev, !Condition IsProd]
  IsNeither: !Not [!Condition IsKnown]
  IsBoth: !And [!Condition IsDev, !Condition IsProd]
Globals:
  Function:
    Timeout: 10
    Layers: [one]
    Environment: {Variables: {BOTH: global, GLOBAL: "yes"}}
Resources:
  Queue: {Type: "AWS::SQS::Queue"}
  Named: {Type: "AWS::SQS::Queue", Properties: {QueueName: !Sub "${Stage}-queue"}}
  Bucket: {Type: "AWS::S3::Bucket"}
  OnlyInProd: {Type: "AWS::SQS::Queue", Condition: IsProd}
  Rule: {Type: "AWS::Events::Rule"}
  Function:
    Type: AWS::Serverless::Function
    Properties:
      Layers: [two]
      Environment: {Variables: {BOTH: own, FLAG: true, COUNT: 3}}
  Value:
    Type: Test::Value
    Properties:
      Value: %s
"""


def read(value: str, tmp_path: Path, **parameters: str) -> Any:
    path = tmp_path / "template.yaml"
    path.write_text(DOCUMENT % value)
    return Template(path, PLACE, parameters).resolved("Value").get("Value")


@pytest.mark.parametrize(
    ("written", "resolved"),
    [
        ("!Ref Stage", "dev"),
        ("{Ref: Size}", 7),
        ("!Ref Zones", ["a", "b", "c"]),
        ("!Ref Queue", "http://127.0.0.1:4566/111122223333/mine-Queue"),
        ("!GetAtt Named.Arn", "arn:aws:sqs:eu-west-1:111122223333:dev-queue"),
        ("{Fn::GetAtt: [Named, QueueName]}", "dev-queue"),
        ("!Ref Bucket", "mine-bucket-111122223333"),
        ('!Sub "${AWS::Region} ${Stage} ${Size} ${Queue.QueueName} ${!Left} $Alone"',
         "eu-west-1 dev 7 mine-Queue ${Left} $Alone"),
        ('!Sub ["${Own} ${Stage}", {Own: !Ref AWS::AccountId}]', "111122223333 dev"),
        ('!Join ["-", [a, !Ref Stage, 3]]', "a-dev-3"),
        ("!Select [1, !Ref Zones]", "b"),
        ('!Split [":", "a:b"]', ["a", "b"]),
        ("!FindInMap [Limits, !Ref Stage, retries]", 3),
        ("!FindInMap [Limits, !Ref Size, retries]", 4),
        ("!If [IsDev, yes-dev, !Ref Nothing]", "yes-dev"),
        ("!If [IsNeither, a, !If [IsBoth, b, c]]", "c"),
        ("!If [IsProd, x, !Ref AWS::NoValue]", None),
        ("[1, !Ref AWS::NoValue, {a: !Ref AWS::NoValue, b: 2}]", [1, {"b": 2}]),
        ("{Statement: {Condition: {Bool: {x: !Ref Stage}}}}", {"Statement": {"Condition": {"Bool": {"x": "dev"}}}}),
    ],
)  # fmt: skip
def test_template_reader_resolves_intrinsic_functions(written: str, resolved: Any, tmp_path: Path) -> None:
    assert read(written, tmp_path) == resolved


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("!Ref Nobody", "Value.Value: !Ref Nobody is neither a parameter nor a resource"),
        ("!Ref Secret", "the parameter Secret has no default"),
        ("!GetAtt Nobody.Arn", "!GetAtt Nobody.Arn: there is no such resource"),
        ("!Ref Rule", "!Ref Rule is not supported (AWS::Events::Rule)"),
        ("!GetAtt Queue.Colour", "!GetAtt Queue.Colour is not supported"),
        ("!Ref OnlyInProd", "OnlyInProd does not exist"),
        ("!If [IsNew, a, b]", "there is no condition 'IsNew'"),
        ("!FindInMap [Limits, test, retries]", "the mapping Limits has no test.retries"),
        ("!ImportValue x", "Fn::ImportValue is not supported"),
    ],
)
def test_template_reader_reports_unresolvable_reference(written: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(TemplateError) as error:
        read(written, tmp_path)
    assert message in str(error.value)


def test_given_template_parameters_replace_defaults_and_decide_conditions(tmp_path: Path) -> None:
    assert read("!Ref Stage", tmp_path, Stage="prod") == "prod"
    path = tmp_path / "template.yaml"
    assert Template(path, PLACE).resources("AWS::SQS::Queue") == ["Queue", "Named"]
    assert Template(path, PLACE, {"Stage": "prod"}).resources("AWS::SQS::Queue") == ["Queue", "Named", "OnlyInProd"]
    with pytest.raises(TemplateError, match="has no parameter Stadium"):
        Template(path, PLACE, {"Stadium": "x"})


def test_function_inherits_template_globals(tmp_path: Path) -> None:
    read("1", tmp_path)
    template = Template(tmp_path / "template.yaml", PLACE)
    assert template.resolved("Function", "Timeout", "Layers") == {"Timeout": 10, "Layers": ["one", "two"]}
    assert template.environment("Function") == {"BOTH": "own", "GLOBAL": "yes", "FLAG": "true", "COUNT": "3"}


ABOVE = """
Parameters:
  Stage: {Type: String, Default: dev}
Conditions:
  IsProd: !Equals [!Ref Stage, prod]
Resources:
  Below:
    Type: AWS::CloudFormation::Stack
    Properties:
      TemplateURL: infra/below.yaml
      Parameters: {Name: !Sub "${Stage}-queue", Letters: !GetAtt Mine.Arn}
  OnlyInProd:
    Type: AWS::CloudFormation::Stack
    Condition: IsProd
    Properties: {TemplateURL: infra/prod.yaml}
  Mine: {Type: "AWS::SQS::Queue"}
  Value:
    Type: Test::Value
    Properties:
      Value: %s
"""
BELOW = """
Parameters:
  Name: {Type: String}
  Letters: {Type: String}
  Known: {Type: CommaDelimitedList, Default: "a,b"}
Conditions:
  IsDev: !Equals [!Ref Name, dev-queue]
Resources:
  Named: {Type: "AWS::SQS::Queue", Properties: {QueueName: !Ref Name, RedrivePolicy: {to: !Ref Letters}}}
  Unnamed: {Type: "AWS::SQS::Queue"}
  InDev: {Type: "AWS::SQS::Queue", Condition: IsDev}
Outputs:
  Arn: {Value: !GetAtt Named.Arn}
  Stack: {Value: !Ref AWS::StackName}
  Last: {Value: !Select [1, !Ref Known]}
"""


def nest(value: str, folder: Path, **parameters: str) -> Template:
    (folder / "infra").mkdir(exist_ok=True)
    (folder / "infra" / "below.yaml").write_text(BELOW)
    (folder / "infra" / "prod.yaml").write_text('Resources: {Other: {Type: "AWS::SQS::Queue"}}')
    (folder / "template.yaml").write_text(ABOVE % value)
    return Template(folder / "template.yaml", PLACE, parameters)


@pytest.mark.parametrize(
    ("written", "resolved"),
    [
        ("!GetAtt Below.Outputs.Arn", "arn:aws:sqs:eu-west-1:111122223333:dev-queue"),
        ('!Sub "${Below.Outputs.Stack}/${Below.Outputs.Last}"', "mine-Below/b"),
    ],
)
def test_nested_stack_outputs_use_parameters_passed_to_that_stack(written: str, resolved: str, tmp_path: Path) -> None:
    assert nest(written, tmp_path).resolved("Value")["Value"] == resolved


def test_template_has_resources_of_nested_stacks(tmp_path: Path) -> None:
    template = nest("1", tmp_path)
    assert template.resources("AWS::SQS::Queue") == ["Mine", "Named", "Unnamed", "InDev"]
    assert template.attribute("Unnamed", "QueueName", "") == "mine-Below-Unnamed"
    assert template.resolved("Named", "RedrivePolicy") == {
        "RedrivePolicy": {"to": "arn:aws:sqs:eu-west-1:111122223333:mine-Mine"}
    }
    prod = nest("1", tmp_path, Stage="prod")
    assert prod.resources("AWS::SQS::Queue") == ["Mine", "Named", "Unnamed", "Other"]


@pytest.mark.parametrize(
    ("value", "change", "message"),
    [
        ("!GetAtt Below.Outputs.Colour", ("", ""), "below.yaml has no output Colour"),
        ("!GetAtt OnlyInProd.Outputs.Arn", ("", ""), "OnlyInProd does not exist"),
        ("1", ("Name: !Sub", "Nome: !Sub"), "has no parameter Nome"),
        ("1", ("  Mine:", "  Named:"), "below.yaml has resources of that name"),
        ("1", ("infra/below.yaml", "infra/nowhere.yaml"), "cannot read"),
    ],
)
def test_template_reader_reports_invalid_nested_stack(
    value: str, change: tuple[str, str], message: str, tmp_path: Path
) -> None:
    nest(value, tmp_path)
    wrong = tmp_path / "template.yaml"
    wrong.write_text(wrong.read_text().replace(*change))
    with pytest.raises(TemplateError, match=re.escape(message)):
        Template(wrong, PLACE).resolved("Value")
