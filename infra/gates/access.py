"""Who may do what: one role for each function, with the calls that it makes and no more."""

import json
from collections.abc import Iterator
from typing import Any

from aion_core.template.reader import FUNCTION, ROLE, Template
from infra.gates.code import constants, core
from infra.gates.deployed import STACK_NAME, Deployed, listed

# Actions that AWS grants only on more than one thing, and why.
NEEDS_A_STAR = {"cloudwatch:DescribeAlarms": "CloudWatch checks it against all of the account's alarms"}
# What gives rights besides a role's own policies, which are all that is looked at here.
ELSEWHERE = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy", "AWS::IAM::UserPolicy")
LOGS = {"logs:CreateLogStream", "logs:PutLogEvents"}
HEARS = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"}

# Where aion says what it tells KMS of whatever it seals.
SEALS = "aws/cipher.py"


def problems(deployed: Deployed) -> Iterator[str]:
    """Yield which roles may do more than they need, or are shared."""
    template = deployed.template
    for name, role in deployed.resources(ROLE):
        if role["Properties"].get("ManagedPolicyArns"):
            yield f"{name} has policies of AWS's own, which give more than one function's things"
    for name, _ in deployed.resources(*ELSEWHERE):
        yield f"{name} gives rights besides the functions' roles: they belong into a role's own Policies"
    for name in template.resources(ROLE):
        for statement in statements(template, name):
            if not {"Action", "Resource"} <= statement.keys():
                yield f"{name} says what it may not do, or where not, and may all else: {statement}"
                continue
            actions, resources = listed(statement["Action"]), listed(statement["Resource"])
            wide = [what for what in resources if "*" in what and not _is_of_this_stack(what)]
            if any("*" in action for action in actions) or (wide and not set(actions) <= NEEDS_A_STAR.keys()):
                yield f"{name} may do more than it needs: {actions} on {resources}"
    roles = [template.resolved(function, "Role").get("Role") for function in template.resources(FUNCTION)]
    if len(set(roles)) < len(roles):
        yield "two functions share a role"
    for function in template.resources(FUNCTION):
        yield from _own_things(template, function)
        yield from _taken_on(template, function)


def statements(template: Template, role: str) -> Iterator[dict[str, Any]]:
    """Yield what a role allows, with its references replaced: of a choice, each that there may be."""
    owner = template.owner(role)
    for policy in template.properties(role).get("Policies", []):
        for statement in listed(policy["PolicyDocument"]["Statement"]):
            for possible in statement["Fn::If"][1:] if "Fn::If" in statement else [statement]:
                if possible.get("Effect") == "Allow":
                    yield owner.resolve(possible, role)


def _is_of_this_stack(resource: str) -> bool:
    """Say whether what ends with a star is below, or a version of, something that only this stack has."""
    before, _, after = resource.partition("*")
    return not after and STACK_NAME in before


def _own_things(template: Template, function: str) -> Iterator[str]:
    """A function writes to its own log and takes from its own queue, and to and from no other."""
    arn = template.resolved(function, "Role").get("Role")
    roles = [role for role in template.resources(ROLE) if template.attribute(role, "Arn", role) == arn]
    if not roles:
        yield f"{function} has no role of this template: SAM makes one with policies of AWS's own"
        return
    place = template.place
    log = template.resolved(function, "LoggingConfig").get("LoggingConfig", {}).get("LogGroup")
    own_log = f"arn:aws:logs:{place.region}:{place.account}:log-group:{log}:*"
    own_queues = {event["Queue"] for _, _, event in template.events(function, "SQS")}
    may_log: set[str] = set()
    heard: set[str] = set()
    opened: set[str] = set()
    said = constants(core(template) / SEALS)["CONTEXT"]
    asked = {"StringEquals": {f"kms:EncryptionContext:{name}": value for name, value in said.items()}}
    for statement in statements(template, roles[0]):
        actions, resources = set(listed(statement.get("Action", []))), set(listed(statement.get("Resource", [])))
        if any(action.startswith("logs:") for action in actions):
            if not actions <= LOGS or resources != {own_log}:
                yield f"{function} may log elsewhere than to its own log group"
            may_log |= actions
        if actions & HEARS:
            heard |= resources
        if "kms:Decrypt" in actions:
            opened |= resources
            if statement.get("Condition", asked) != asked:
                yield f"{function} may open nothing: its code says {asked} and its role {statement['Condition']}"
    if may_log != LOGS:
        yield f"{function} may not log"
    if heard != own_queues:
        yield f"{function} may take messages of {sorted(heard)}, and works on {sorted(own_queues)}"
    key = template.environment(function).get("AION_KMS_KEY")
    if opened != ({key} if key else set()):
        yield f"{function} may open what is sealed by {sorted(opened)}, and AION_KMS_KEY says {key}"


def _taken_on(template: Template, function: str) -> Iterator[str]:
    """Lambda takes on a function's role, and CodeDeploy the one by which it shifts the function's requests."""
    properties = template.properties(function)
    roles = {
        "lambda.amazonaws.com": properties.get("Role"),
        "codedeploy.amazonaws.com": properties.get("DeploymentPreference", {}).get("Role"),
    }
    for service, role in roles.items():
        arn = template.resolve(role, f"{function}.Role")
        for name in template.resources(ROLE):
            trusted = json.dumps(template.properties(name)["AssumeRolePolicyDocument"])
            if template.attribute(name, "Arn", name) == arn and service not in trusted:
                yield f"{function}: {service} cannot take on {name}, and the deployment fails"
