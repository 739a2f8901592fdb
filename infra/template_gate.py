"""What is wrong with a template, also where `sam validate --lint` sees nothing; offline, without credentials.

SAM's own transform makes plain CloudFormation of it, cfn-lint reads that, and the rest is what neither of them notices: a
stream that is silently buffered, a message that comes again while it is worked on, a queue that loses what it cannot give.
"""

import ast
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import cfnlint.api  # type: ignore[import-untyped]
from cfnlint.config import ManualArgs  # type: ignore[import-untyped]
from samtranslator.model.exceptions import InvalidDocumentException
from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

from infra.template import BUCKET, FUNCTION, KEY, QUEUE, TABLE, Place, Template, TemplateError

REGION = "us-east-1"
LONGEST_RESPONSE = 900_000
LONGEST_RETENTION = 14 * 24 * 3600
OWN = "AION_"
RETENTION = "AION_RETENTION_DAYS"
# Days: a row goes some time after it has expired, and what it names has to be there as long as it is.
LONGER_THAN_ITS_ROW = 15
# W2001, a parameter that is not used: the transform itself has used some of them up.
IGNORED = ["W2001"]
# What `sam package` puts in the place of a local folder.
PACKAGED = "s3://packaged/function.zip"


class _ManagedPolicies:
    """Stands in for IAM, which the transform asks for the names of managed policies."""

    def load(self) -> dict[str, str]:
        return {}

    def get_managed_policy(self, name: str) -> None:
        return None


def problems(path: Path, parameters: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield what is wrong with the template when it is deployed with these parameters; the slow linter is heard last."""
    parameters = dict(parameters or {})
    try:
        template = Template(path, Place("123456789012", REGION, "https://sqs", "gate"), parameters)
        plain = transformed(path, parameters)
        yield from _streams(plain)
        yield from _permissions(plain)
        yield from _queues(template)
        yield from _state(plain)
        yield from _payloads(template)
        yield from _code(template)
        yield from _variables(template)
        yield from _lint(plain)
    except TemplateError as error:
        yield str(error)
    except InvalidDocumentException as error:
        yield from (cause.message for cause in error.causes)


def transformed(path: Path, parameters: Mapping[str, str]) -> dict[str, Any]:
    """Return the CloudFormation template that SAM makes of this one."""
    document = yaml_parse(path.read_text(encoding="utf-8"))
    for holder in (document.get("Globals", {}).get("Function", {}), *_properties(document, FUNCTION)):
        if "CodeUri" in holder:
            holder["CodeUri"] = PACKAGED
    os.environ.setdefault("AWS_DEFAULT_REGION", REGION)
    # It complains about feature toggles that only exist at AWS.
    logging.getLogger("samtranslator").setLevel(logging.CRITICAL)
    plain: dict[str, Any] = transform(document, dict(parameters), _ManagedPolicies())
    return plain


def _properties(document: dict[str, Any], kind: str) -> Iterator[dict[str, Any]]:
    for resource in document["Resources"].values():
        if resource.get("Type") == kind:
            yield resource.get("Properties") or {}


def _lint(plain: dict[str, Any]) -> Iterator[str]:
    config = ManualArgs(regions=[REGION], ignore_checks=IGNORED)
    for match in cfnlint.api.lint(json.dumps(plain, default=str), config=config):
        yield f"{match.rule.id} {match.message}"


def _streams(plain: dict[str, Any]) -> Iterator[str]:
    """Every answer of a REST API is streamed, for as long as a stream may take."""
    for api in _properties(plain, "AWS::ApiGateway::RestApi"):
        if api.get("EndpointConfiguration", {}).get("Types") != ["REGIONAL"]:
            yield "an edge-optimised API cuts a stream that is silent for 30 s: its endpoint has to be REGIONAL"
        for path, methods in api["Body"]["paths"].items():
            for method in methods.values():
                integration = method["x-amazon-apigateway-integration"]
                is_invoked_streaming = "/response-streaming-invocations" in json.dumps(integration["uri"])
                if integration.get("responseTransferMode") != "STREAM" or not is_invoked_streaming:
                    yield f"{path} is buffered: its event needs ResponseTransferMode: RESPONSE_STREAM"
                if not 50 <= int(integration.get("timeoutInMillis", 0)) <= LONGEST_RESPONSE:
                    yield f"{path}: TimeoutInMillis has to be at most {LONGEST_RESPONSE}"


def _permissions(plain: dict[str, Any]) -> Iterator[str]:
    """No role may do everything, and none is shared."""
    for name, resource in plain["Resources"].items():
        if resource["Type"] == "AWS::IAM::Role":
            for policy in resource["Properties"].get("Policies", []):
                for statement in _possible(policy["PolicyDocument"]["Statement"]):
                    asked = [*_listed(statement.get("Action", [])), *_listed(statement.get("Resource", []))]
                    if statement["Effect"] == "Allow" and any(_is_wide(what) for what in asked):
                        yield f"{name} may do more than it needs: {asked}"
    roles = [json.dumps(function["Role"]) for function in _properties(plain, "AWS::Lambda::Function")]
    if len(set(roles)) < len(roles):
        yield "two functions share a role"


def _possible(statements: Any) -> Iterator[dict[str, Any]]:
    """Yield the statements that there may be: of a choice, each that is one."""
    for statement in _listed(statements):
        if "Fn::If" in statement:
            yield from (either for either in statement["Fn::If"][1:] if "Effect" in either)
        else:
            yield statement


def _is_wide(asked: Any) -> bool:
    """Say whether it is several actions, or any resource at all; the ARN of objects or indexes may end with a star."""
    return isinstance(asked, str) and "*" in asked and not asked.startswith("arn:")


def _queues(template: Template) -> Iterator[str]:
    """No message comes again while it is worked on, and none is lost that cannot be worked on."""
    queues = {template.attribute(name, "Arn", name): name for name in template.resources(QUEUE)}
    properties = {name: template.resolved(name) for name in queues.values()}
    dead_letters = {arn for p in properties.values() if (arn := p.get("RedrivePolicy", {}).get("deadLetterTargetArn"))}
    timeouts = {
        name: int(template.resolved(name, "Timeout").get("Timeout", 3)) for name in template.resources(FUNCTION)
    }
    consumers: dict[str, list[int]] = {arn: [] for arn in queues}
    for function, timeout in timeouts.items():
        for name, _, event in template.events(function, "SQS"):
            consumers.setdefault(event["Queue"], []).append(timeout)
            if event.get("FunctionResponseTypes") != ["ReportBatchItemFailures"]:
                yield f"{function}.{name}: one message that fails takes its batch along without ReportBatchItemFailures"
            if template.properties(function).get("RecursiveLoop") != "Allow":
                yield f"{function} rings its own queue, which Lambda ends after 16 times without RecursiveLoop: Allow"
    for arn, name in queues.items():
        if properties[name].get("SqsManagedSseEnabled") is not True:
            yield f"{name} is not encrypted"
        if arn in dead_letters:
            if properties[name].get("MessageRetentionPeriod") != LONGEST_RETENTION:
                yield f"{name} forgets dead letters before the 14 days that it could keep them"
            continue
        # Until it has its consumer, the longest of all.
        longest = max(consumers[arn] or timeouts.values(), default=0)
        if int(properties[name].get("VisibilityTimeout", 30)) < longest:
            yield f"{name} shows a message again before the {longest} s are over that its function may take"
        if properties[name].get("RedrivePolicy", {}).get("deadLetterTargetArn") not in queues:
            yield f"{name} has no dead letter queue of this template"


def _state(plain: dict[str, Any]) -> Iterator[str]:
    """What people keep outlives the stack; what is logged does not outlive its use."""
    for name, resource in plain["Resources"].items():
        if resource["Type"] in (TABLE, BUCKET, KEY):
            policies = {resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy")}
            if policies != {"Retain"}:
                yield f"{name} goes with the stack: DeletionPolicy and UpdateReplacePolicy have to be Retain"
        if resource["Type"] == "AWS::Logs::LogGroup" and "RetentionInDays" not in resource["Properties"]:
            yield f"{name} keeps logs for ever"
        if resource["Type"] == "AWS::Lambda::Function" and "LogGroup" not in resource["Properties"].get(
            "LoggingConfig", {}
        ):
            yield f"{name} logs to a group without retention"


def _payloads(template: Template) -> Iterator[str]:
    """No row of the table outlives the payload that it names."""
    kept = max(
        (float(template.environment(name).get(RETENTION, 0)) for name in template.resources(FUNCTION)), default=0.0
    )
    for bucket in template.resources(BUCKET):
        lifecycle = template.resolved(bucket, "LifecycleConfiguration").get("LifecycleConfiguration", {})
        for rule in lifecycle.get("Rules", []):
            if int(rule.get("ExpirationInDays", sys.maxsize)) < kept + LONGER_THAN_ITS_ROW:
                yield f"{bucket}: {rule['Id']} takes payloads away before their rows: {RETENTION} and 15 days have to fit"


def _code(template: Template) -> Iterator[str]:
    """What the template names is in the project."""
    for function in template.resources(FUNCTION):
        code = template.path.parent / template.resolved(function, "CodeUri").get("CodeUri", ".")
        environment = template.environment(function)
        handler = template.properties(function)["Handler"]
        named = [tuple(handler.rpartition(".")[::2])]
        if "AION_ASGI_APP" in environment:
            named.append(tuple(environment["AION_ASGI_APP"].split(":")))
        for module, name in named:
            file = code / f"{module.replace('.', '/')}.py"
            if not file.is_file() or name not in _names(file):
                yield f"{function}: there is no {name} in {file.relative_to(code)}"
        wrapper = environment.get("AWS_LAMBDA_EXEC_WRAPPER")
        if wrapper is not None and not os.access(code / wrapper.removeprefix("/var/task/"), os.X_OK):
            yield f"{function}: {wrapper} is not a program of the project"


def _variables(template: Template) -> Iterator[str]:
    """A function's environment says what aion's code reads of it, and nothing that no code reads."""
    for function in template.resources(FUNCTION):
        code = template.path.parent / template.resolved(function, "CodeUri").get("CodeUri", ".") / "aion_core"
        settings = _variables_read(code / "settings.py")
        needed = {name for name, has_default in settings.items() if not has_default}
        runtime = {name for file in (code / "lambda_runtime").glob("*.py") for name in _variables_read(file)}
        given = {name for name in template.environment(function) if name.startswith(OWN)}
        for name in sorted(given - settings.keys() - runtime):
            yield f"{function}: nothing reads {name}"
        for name in sorted(needed - given):
            yield f"{function}: {name} is missing, and has no default"


def _variables_read(file: Path) -> dict[str, bool]:
    """Return the names of aion's variables that a module reads, and whether each has a default everywhere."""
    read: dict[str, bool] = {}
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(args=[ast.Constant(value=str(name)), *defaults]) if name.startswith(OWN):
                # `None` says that it has to be there, also where only some deployments need it.
                needed = any(
                    isinstance(part, ast.Constant) and part.value is None for d in defaults for part in ast.walk(d)
                )
                read[name] = read.get(name, True) and not needed
            case ast.Subscript(slice=ast.Constant(value=str(name))) if name.startswith(OWN):
                read[name] = False
    return read


def _names(file: Path) -> set[str]:
    """Return what a module defines at its top."""
    names: set[str] = set()
    for statement in ast.parse(file.read_text(encoding="utf-8")).body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names.update(target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names.update(alias.asname or alias.name for alias in aliases)
    return names


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def main() -> int:
    """Say what is wrong with template.yaml."""
    found = list(problems(Path("template.yaml")))
    print("\n".join(found), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
