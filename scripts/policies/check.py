"""`make lint`: check template.yaml and its nested stacks with default parameters and with every option.

SAM's own transform and cfn-lint find invalid CloudFormation, and `rules` what only aion's own code and data need.
"""

import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from aion_tools.template.file import TemplateError, parsed
from aion_tools.template.reader import FUNCTION
from scripts.policies import rules
from scripts.policies.deployment import PLACE, ResolvedDeployment

CODE = "s3://packaged/function.zip"
"""Location of a function's package after an upload by `sam package`."""

IMAGE = "111122223333.dkr.ecr.us-east-1.amazonaws.com/agents:latest"
"""Location of a function's image after an upload by `sam package`."""

EVERY_OPTION = {
    "ApiAuthorizer": "NONE",
    "FunctionUrlAuth": "NONE",
    "AgentSecrets": "arn:aws:secretsmanager:us-east-1:123456789012:secret:openai-??????,arn:aws:ssm:us-east-1:123456789012:parameter/a",
    "AgentSecretsKey": "arn:aws:kms:us-east-1:123456789012:key/a-key",
    "AgentPolicyArns": "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess,arn:aws:iam::123456789012:policy/agents/orders",
    "BedrockModels": "arn:aws:bedrock:us-east-1::foundation-model/amazon.nova-lite-v1:0,"
    "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-lite-v1:0",
    "SubnetIds": "subnet-0a1b,subnet-0c2d",
    "SecurityGroupIds": "sg-0e3f",
    "Architecture": "arm64",
    "AgentEnvironment": '{"TABLE": "orders"}',
    "Console": "on",
    "AlarmEmail": "operator@example.com",
    "AlarmTopic": "arn:aws:sns:us-east-1:123456789012:alarms",
    "ApiConcurrency": "100",
    "AwsEndpointUrl": "http://127.0.0.1:4566",
    "BasicUsersSecret": "arn:aws:secretsmanager:us-east-1:123456789012:secret:users-AbCdEf",
    "CardKeySecret": "arn:aws:secretsmanager:us-east-1:123456789012:secret:card-key-AbCdEf",
    "CertificateArn": "arn:aws:acm:us-east-1:123456789012:certificate/c",
    "CredentialsKey": "arn:aws:kms:us-east-1:123456789012:key/a-key",
    "DeletionProtection": "true",
    "Deployment": "AllAtOnce",
    "DomainName": "agents.example.com",
    "LogRetentionDays": "7",
    "OtlpEndpoint": "http://127.0.0.1:4318",
}
VARIANTS: Sequence[Mapping[str, str]] = (
    {},
    EVERY_OPTION,
    {"FunctionUrlAuth": "AWS_IAM", "AlarmEmail": "operator@example.com"},
)


def problems(path: Path, variants: Sequence[Mapping[str, str]] = VARIANTS, *, lint: bool = True) -> Iterator[str]:
    """Yield the problems of a template with each set of parameters. With `lint` also run cfn-lint."""
    from samtranslator.model.exceptions import InvalidDocumentException

    found: set[str] = set()
    try:
        transformed(path)
        for parameters in variants:
            for problem in rules.problems(ResolvedDeployment(path, parameters)):
                if problem not in found:
                    found.add(problem)
                    yield problem
        if lint:
            yield from dict.fromkeys(linted(path))
    except TemplateError as error:
        yield str(error)
    except InvalidDocumentException as error:
        yield from dict.fromkeys(cause.message for cause in error.causes)


def transformed(path: Path, parameters: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a template file after SAM's transform. Raises InvalidDocumentException."""
    return deepcopy(_transformed(path.read_text(encoding="utf-8"), tuple((parameters or {}).items())))


@lru_cache(maxsize=8)
def _transformed(text: str, parameters: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    # Import this only here, because the import takes a second.
    from samtranslator.translator.transform import transform

    template = deepcopy(parsed(text))
    functions = [each.get("Properties") or {} for each in template["Resources"].values() if each["Type"] == FUNCTION]
    for holder in (template.get("Globals", {}).get("Function", {}), *functions):
        if "CodeUri" in holder:
            holder["CodeUri"] = CODE
        if holder.get("PackageType") == "Image":
            holder["ImageUri"] = IMAGE
    # Hide the transform's warning about missing feature toggles, which only AWS has.
    logging.getLogger("samtranslator").setLevel(logging.CRITICAL)
    # Pass an empty loader, because the transform would otherwise look up the names of managed policies in IAM.
    no_policies = SimpleNamespace(load=dict, get_managed_policy=lambda name: None)
    with patch.dict(os.environ, {"AWS_DEFAULT_REGION": os.environ.get("AWS_DEFAULT_REGION", PLACE.region)}):
        plain: dict[str, Any] = transform(template, dict(parameters), no_policies)
    return plain


def linted(path: Path) -> Iterator[str]:
    """Yield the findings of cfn-lint in each template file, and in the template after SAM's transform."""
    # Import this only here, because the import takes a second.
    import cfnlint.api  # type: ignore[import-untyped]
    from cfnlint.config import ManualArgs  # type: ignore[import-untyped]

    files = [path, *sorted((path.parent / "infra").glob("*.yaml"))]
    for file in (each for each in files if "Resources" in parsed(each.read_text(encoding="utf-8"))):
        # Ignore W3002, because `sam package` uploads the local nested templates. Ignore W3011, because rules.py
        # checks the policies of resources with state, and SAM copies DeletionPolicy to function versions.
        for match in cfnlint.api.lint_file(file, ManualArgs(regions=[PLACE.region], ignore_checks=["W3002", "W3011"])):
            yield f"{file.name}:{match.linenumber}: {match.rule.id} {match.message}"
    # Ignore W2001 (unused parameter), because the transform has replaced some parameters.
    config = ManualArgs(regions=[PLACE.region], ignore_checks=["W2001", "W3002", "W3011"])
    for match in cfnlint.api.lint(json.dumps(transformed(path), default=str), config=config):
        yield f"{path.name}, transformed: {match.rule.id} {match.message}"


def main() -> int:
    """Print the problems of template.yaml."""
    found = list(problems(Path("template.yaml")))
    print("\n".join(found), file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
