"""Templates are read as CloudFormation reads them."""

from pathlib import Path
from typing import Any

import pytest

from infra.template import Place, Template, TemplateError

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
  Topic: {Type: "AWS::SNS::Topic"}
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
    ("written", "meant"),
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
def test_a_value_means_what_cloudformation_makes_of_it(written: str, meant: Any, tmp_path: Path) -> None:
    assert read(written, tmp_path) == meant


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("!Ref Nobody", "Value.Value: !Ref Nobody names neither a parameter nor a resource"),
        ("!Ref Secret", "the parameter Secret has no default"),
        ("!GetAtt Nobody.Arn", "!GetAtt Nobody.Arn names no resource"),
        ("!Ref Topic", "!Ref Topic cannot be worked out here (AWS::SNS::Topic)"),
        ("!GetAtt Queue.Colour", "!GetAtt Queue.Colour cannot be worked out here"),
        ("!Ref OnlyInProd", "OnlyInProd is not made"),
        ("!If [IsNew, a, b]", "no condition is named 'IsNew'"),
        ("!FindInMap [Limits, test, retries]", "the mapping Limits has no test.retries"),
        ("!ImportValue x", "Fn::ImportValue cannot be worked out here"),
    ],
)
def test_what_cannot_be_worked_out_is_named(written: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(TemplateError) as error:
        read(written, tmp_path)
    assert told in str(error.value)


def test_parameters_replace_defaults_and_decide_what_is_made(tmp_path: Path) -> None:
    assert read("!Ref Stage", tmp_path, Stage="prod") == "prod"
    path = tmp_path / "template.yaml"
    assert Template(path, PLACE).resources("AWS::SQS::Queue") == ["Queue", "Named"]
    assert Template(path, PLACE, {"Stage": "prod"}).resources("AWS::SQS::Queue") == ["Queue", "Named", "OnlyInProd"]
    with pytest.raises(TemplateError, match="has no parameter Stadium"):
        Template(path, PLACE, {"Stadium": "x"})


def test_a_function_has_the_globals_beneath_its_own_properties(tmp_path: Path) -> None:
    read("1", tmp_path)
    template = Template(tmp_path / "template.yaml", PLACE)
    assert template.resolved("Function", "Timeout", "Layers") == {"Timeout": 10, "Layers": ["one", "two"]}
    assert template.environment("Function") == {"BOTH": "own", "GLOBAL": "yes", "FLAG": "true", "COUNT": "3"}
