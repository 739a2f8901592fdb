"""Who may come in from outside: to the API as it was asked for, and to nothing else."""

import json
from collections.abc import Iterator
from typing import Any

from aion_core.template.reader import BUCKET, FUNCTION, ROLE, Template
from infra.gates.deployed import Deployed, listed

# Where a policy says who may use a thing, by their types.
POLICIES = {
    "AWS::S3::BucketPolicy": "PolicyDocument",
    "AWS::SQS::QueuePolicy": "PolicyDocument",
    "AWS::SNS::TopicPolicy": "PolicyDocument",
    "AWS::KMS::Key": "KeyPolicy",
    ROLE: "AssumeRolePolicyDocument",
}
TAKEN_ON_BY = {"lambda.amazonaws.com", "codedeploy.amazonaws.com"}
PERMISSION = "AWS::Lambda::Permission"
PRIVATE = {"BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"}


def problems(deployed: Deployed) -> Iterator[str]:
    """Yield what is open, or says that others watch over it when they do not."""
    yield from _policies(deployed)
    yield from _buckets(deployed)
    yield from _fronts(deployed)


def _policies(deployed: Deployed) -> Iterator[str]:
    """No policy lets everybody in, and a role is taken on by the service that it was made for."""
    for name, resource in deployed.resources(*POLICIES):
        for statement in listed(resource["Properties"].get(POLICIES[resource["Type"]], {}).get("Statement", [])):
            who = statement.get("Principal")
            if statement.get("Effect") == "Allow" and ("NotPrincipal" in statement or _is_everybody(who)):
                yield f"{name} lets everybody in: {json.dumps(statement, default=str)}"
            elif resource["Type"] == ROLE and not (
                isinstance(who, dict) and who.keys() == {"Service"} and set(listed(who["Service"])) <= TAKEN_ON_BY
            ):
                yield f"{name} may be taken on by {json.dumps(who)}, and is for {' or '.join(sorted(TAKEN_ON_BY))}"
    is_open = _parameter(deployed.template, "FunctionUrlAuth") == "NONE"
    for name in deployed.template.resources(PERMISSION):
        by_url = {"FunctionUrlAuthType", "InvokedViaFunctionUrl"} & deployed.template.properties(name).keys()
        if _is_everybody(deployed.template.resolved(name, "Principal")["Principal"]) and not (is_open and by_url):
            yield f"{name} lets everybody in: only FunctionUrlAuth=NONE may, and by the Function URL alone"


def _buckets(deployed: Deployed) -> Iterator[str]:
    """A bucket is nobody else's, and is spoken to under TLS."""
    for name, bucket in deployed.resources(BUCKET):
        told = bucket["Properties"].get("PublicAccessBlockConfiguration", {})
        if any(told.get(each) is not True for each in PRIVATE):
            yield f"{name} may be opened to the public: {', '.join(sorted(PRIVATE))} have to be true"
        owned = bucket["Properties"].get("OwnershipControls", {}).get("Rules", [])
        if [rule.get("ObjectOwnership") for rule in owned] != ["BucketOwnerEnforced"]:
            yield f"{name} lets who writes an object say who reads it: ObjectOwnership has to be BucketOwnerEnforced"
        arn = deployed.template.attribute(name, "Arn", name)
        if not {arn, f"{arn}/*"} <= _refused_without_tls(deployed.template):
            yield f"{name} may be spoken to without TLS: a policy has to refuse aws:SecureTransport false for it and its objects"


def _refused_without_tls(template: Template) -> set[str]:
    """Return the resources with which nobody may do anything without TLS."""
    refused = {"Bool": {"aws:SecureTransport": "false"}}
    return {
        resource
        for name in template.resources("AWS::S3::BucketPolicy")
        for each in listed(template.resolved(name, "PolicyDocument")["PolicyDocument"]["Statement"])
        if (each["Effect"], each.get("Action"), each.get("Condition")) == ("Deny", "s3:*", refused)
        and _is_everybody(each.get("Principal"))
        for resource in listed(each["Resource"])
    }


def _fronts(deployed: Deployed) -> Iterator[str]:
    """What the API does not ask the function asks: it knows which of them asks what."""
    template = deployed.template
    asks = _parameter(template, "ApiAuthorizer") == "AWS_IAM"
    for _, api in deployed.resources("AWS::ApiGateway::RestApi"):
        for path, methods in api["Properties"]["Body"]["paths"].items():
            if asks and any(method.get("security") != [{"AWS_IAM": []}] for method in methods.values()):
                yield f"{path} is open, and ApiAuthorizer says that it asks for a signature"
    for name, domain in deployed.resources("AWS::ApiGateway::DomainName"):
        policy = str(domain["Properties"].get("SecurityPolicy"))
        if policy != "TLS_1_2" and not policy.startswith("SecurityPolicy_TLS13"):
            yield f"{name} may be spoken to under a TLS that is broken: SecurityPolicy has to be TLS_1_2 or newer"
    for name, url in deployed.resources("AWS::Lambda::Url"):
        if url["Properties"].get("AuthType") != {"Ref": "FunctionUrlAuth"}:
            yield f"{name} asks something else than FunctionUrlAuth says, which the function relies on: AuthType"
    for function in template.resources(FUNCTION):
        if not template.written_events(function, "Api"):
            continue
        if template.environment(function).get("AION_AUTH") != "on":
            yield f"{function} asks nobody who they are: AION_AUTH has to be on"
        written = template.properties(function).get("Environment", {}).get("Variables", {}).get("AION_HTTP_ENTRYPOINTS")
        if not all(f"${{{each}}}" in json.dumps(written) for each in ("ApiAuthorizer", "FunctionUrlAuth")):
            yield f"{function} is not told by AION_HTTP_ENTRYPOINTS what ApiAuthorizer and FunctionUrlAuth ask"


def _is_everybody(who: Any) -> bool:
    named = [each for part in who.values() for each in listed(part)] if isinstance(who, dict) else listed(who)
    return any(isinstance(each, str) and "*" in each for each in named)


def _parameter(template: Template, name: str) -> Any:
    return template.resolve({"Ref": name}, name)
