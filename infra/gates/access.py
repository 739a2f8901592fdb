"""Who may do what: one role for each function, with the calls that it makes and no more."""

import json
import re
from collections.abc import Iterator
from typing import Any

from aion_core.template.reader import FUNCTION, ROLE, Template
from infra.gates.code import constants, core
from infra.gates.deployed import STACK_NAME, Deployed, listed, runs_agents, uses

# Actions that AWS grants only on more than one thing, and why.
NEEDS_A_STAR = {"cloudwatch:DescribeAlarms": "CloudWatch checks it against all of the account's alarms"}
# What gives rights besides a role's own policies, which are all that is looked at here.
ELSEWHERE = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy", "AWS::IAM::UserPolicy")
LOGS = {"logs:CreateLogStream", "logs:PutLogEvents"}
HEARS = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"}

# Rights that a deployment's parameters give to agents' code.
OF_AGENTS = ("AgentSecrets", "AgentSecretsKey", "AgentPolicyArns", "BedrockModels")
GIVEN_POLICIES = {"Fn::If": ["HasAgentPolicies", {"Ref": "AgentPolicyArns"}, {"Ref": "AWS::NoValue"}]}
# Secrets Manager ends a secret's ARN by these, and nobody knows them before the secret is there.
SUFFIX = re.compile(r"(arn:[^:]+:secretsmanager:[^:*?]+:[0-9]+:secret:[^*?]+-)[?]{6}")
CALLS_MODELS = {"bedrock:InvokeModel", "bedrock:InvokeModelWithResponseStream"}
MODELS = re.compile(r"arn:[^:]+:bedrock:[^:]*::foundation-model/[*]")
# Lambda's own calls with the role of a function in a VPC. EC2 cannot tell Lambda's network interfaces apart.
NETWORK = {
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
}

# Where aion says what it tells KMS of whatever it seals.
SEALS = "aws/cipher.py"


def problems(deployed: Deployed) -> Iterator[str]:
    """Yield which roles may do more than they need, or are shared."""
    template = deployed.template
    agents = {_role(template, name) for name in template.resources(FUNCTION) if runs_agents(template, name)}
    for name, role in deployed.resources(ROLE):
        if role["Properties"].get("ManagedPolicyArns", GIVEN_POLICIES) != GIVEN_POLICIES:
            yield f"{name} has policies of AWS's own, which give more than one function's things"
    for name, _ in deployed.resources(*ELSEWHERE):
        yield f"{name} gives rights besides the functions' roles: they belong into a role's own Policies"
    for name in template.resources(ROLE):
        for statement in statements(template, name):
            if not {"Action", "Resource"} <= statement.keys():
                yield f"{name} says what it may not do, or where not, and may all else: {statement}"
                continue
            actions, resources = listed(statement["Action"]), listed(statement["Resource"])
            wide = [what for what in resources if _is_wide(what) and not _is_of_this_stack(what)]
            if any("*" in action for action in actions) or (wide and not _is_narrowed(template, name, statement, wide)):
                yield f"{name} may do more than it needs: {actions} on {resources}"
        yield from _of_agents(template, name, is_theirs=name in agents)
    roles = [template.resolved(function, "Role").get("Role") for function in template.resources(FUNCTION)]
    if len(set(roles)) < len(roles):
        yield "two functions share a role"
    for function in template.resources(FUNCTION):
        yield from _own_things(template, function)
        yield from _taken_on(template, function)


def statements(template: Template, role: str, effect: str = "Allow") -> Iterator[dict[str, Any]]:
    """Yield what a role allows, or denies, with its references replaced: of a choice, each that there may be."""
    owner = template.owner(role)
    for policy in template.properties(role).get("Policies", []):
        for statement in listed(policy["PolicyDocument"]["Statement"]):
            for possible in statement["Fn::If"][1:] if "Fn::If" in statement else [statement]:
                if possible.get("Effect") == effect:
                    yield owner.resolve(possible, role)


def _is_of_this_stack(resource: str) -> bool:
    """Say whether what ends with a star is below, or a version of, something that only this stack has."""
    before, _, after = resource.partition("*")
    return not after and STACK_NAME in before


def _is_wide(resource: str) -> bool:
    """Say whether more than one thing is meant."""
    return bool(re.search(r"[*?]", SUFFIX.sub(r"\1", resource)))


def _is_narrowed(template: Template, role: str, statement: dict[str, Any], wide: list[str]) -> bool:
    """Say whether what is written for many things is for few, by AWS's own rules, by its condition or by a denial."""
    actions = set(listed(statement["Action"]))
    if actions <= NEEDS_A_STAR.keys():
        return True
    condition = statement.get("Condition", {})
    if actions <= CALLS_MODELS and all(MODELS.fullmatch(each) for each in wide):
        through = condition.get("StringEquals", {}).get("bedrock:InferenceProfileArn")
        return through is not None and not any(map(_is_wide, listed(through)))
    if actions <= NETWORK:
        by_code = f"arn:aws:lambda:{template.place.region}:{template.place.account}:function:*"
        return any(
            actions <= set(listed(denied["Action"]))
            and denied["Resource"] == "*"
            and denied.get("Condition") == {"ArnLike": {"lambda:SourceFunctionArn": by_code}}
            for denied in statements(template, role, "Deny")
        )
    return False


def _of_agents(template: Template, role: str, *, is_theirs: bool) -> Iterator[str]:
    """Check that rights and variables of agents' code go to each function that runs it, and to no other."""
    written = json.dumps(template.properties(role))
    for parameter in OF_AGENTS:
        if is_theirs and not uses(written, parameter):
            yield f"{role} is of a function that runs agents, and {parameter} gives it nothing"
        elif not is_theirs and uses(written, parameter):
            yield f"{role} is of no function that runs agents, and {parameter} gives it their rights"
    given = {action for statement in statements(template, role) for action in listed(statement.get("Action", []))}
    if is_theirs and not given >= NETWORK:
        yield f"{role} cannot be used in a VPC: Lambda needs {', '.join(sorted(NETWORK - given))}"
    elif not is_theirs and given & NETWORK:
        yield f"{role} is of no function in a VPC, and may {', '.join(sorted(given & NETWORK))}"


def _role(template: Template, function: str) -> str | None:
    """Return the logical id of the function's role, None where it is none of this template's."""
    arn = template.resolved(function, "Role").get("Role")
    return next((role for role in template.resources(ROLE) if template.attribute(role, "Arn", role) == arn), None)


def _own_things(template: Template, function: str) -> Iterator[str]:
    """A function writes to its own log and takes from its own queue, and to and from no other."""
    role = _role(template, function)
    if role is None:
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
    # The key of agents' secrets, which Secrets Manager and SSM use in the role's name.
    services = [f"{service}.{place.region}.amazonaws.com" for service in ("secretsmanager", "ssm")]
    by_service = {"StringEquals": {"kms:ViaService": services}}
    for statement in statements(template, role):
        actions, resources = set(listed(statement.get("Action", []))), set(listed(statement.get("Resource", [])))
        if any(action.startswith("logs:") for action in actions):
            if not actions <= LOGS or resources != {own_log}:
                yield f"{function} may log elsewhere than to its own log group"
            may_log |= actions
        if actions & HEARS:
            heard |= resources
        if runs_agents(template, function) and actions == {"kms:Decrypt"} and statement.get("Condition") == by_service:
            continue
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
