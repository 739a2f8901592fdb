"""Rules for template values that depend on aion's code, parameters or other values. `values.yaml` checks constants."""

import json
import math
import re
from collections.abc import Iterator, Set
from typing import Any

from aion_core.errors import ConfigurationError
from aion_core.push.client import POST_SECONDS
from aion_core.push.delivery import SHARE_SECONDS
from aion_core.push.poster import EXIT_SECONDS
from aion_core.settings import Settings
from aion_core.table import schema
from aion_core.table.item import Index
from aion_core.telemetry import Metric
from aion_tools.cli.checks.local import RUNTIME
from aion_tools.erasure.owned import PARTITIONS, NamedBy
from aion_tools.template.reader import ALARM, BUCKET, QUEUE, ROLE, TABLE, Template
from scripts.policies.deployment import PLACE, ROOT, ResolvedDeployment

LONGEST_FILE = 600
# Resources allowed in a policy statement: ARNs without wildcards, ARNs of secrets with six wildcards for the random
# suffix, and ARNs of this stack's own resources. Statements in WIDE may have others.
NARROW = re.compile(r"[^*?]+|arn:[^*?]+:secret:[^*?]+-[?]{6}|[^*?]*\bstack-[^*?]*[*]")
# Ids of policy statements that may have resources outside of NARROW. `values.yaml` checks them completely.
WIDE = {"BedrockProfiles", "Network", "NetworkLists", "NetworkIsLambdas", "Alarms"}
# Ids of policy statements and names of managed policies, by the template parameter that adds them to a role.
ADDED = {
    "AgentSecrets": {"AgentSecrets"},
    "AgentSecretsKey": {"AgentSecretsKey"},
    "BedrockModels": {"BedrockModels", "BedrockProfiles"},
    "SubnetIds": {"Network", "NetworkLists", "NetworkIsLambdas"},
}
# Patterns of all partition keys, and of the keys of API-key items. The functions must not write API-key items.
KINDS_OF_ITEMS = {f"{each.prefix}*" for each in PARTITIONS}
KEYS_OF_CALLERS = {f"{each.prefix}*" for each in PARTITIONS if each.named_by is NamedBy.API_KEY}
AWS_METRICS = {
    "AWS/Lambda": "Invocations Errors Throttles ConcurrentExecutions",
    "AWS/SQS": "ApproximateNumberOfMessagesVisible ApproximateAgeOfOldestMessage",
    "AWS/ApiGateway": "Count 4XXError 5XXError",
    "AWS/DynamoDB": "ConsumedReadCapacityUnits ConsumedWriteCapacityUnits ReadThrottleEvents WriteThrottleEvents",
}
# Environment variables of settings.py that the template does not set.
NOT_DEPLOYED = {
    # Only development sets these variables, because their defaults are for AWS.
    "AION_STORE", "AION_PUSH_HTTP", "AION_CARD_KEY_FILE", "AION_BASIC_USERS_FILE", "AION_SECRETS", "AION_REVEAL_ERRORS",
    "AION_LOOPBACK_ORIGINS", "AION_PUSH_RECEIVER",
    "AION_SQLITE_FOLDER", "AION_TURNS_AT_ONCE", "AION_STORE_CALLS", "AION_STORE_TIMEOUT",
    # Lambda, `sam local` or a function's LoggingConfig sets these variables.
    "AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_INITIALIZATION_TYPE", "AWS_SAM_LOCAL", "AWS_LAMBDA_LOG_LEVEL", "POWERTOOLS_LOG_LEVEL",
    # Instead of the first variable, the template sets OTEL_EXPORTER_OTLP_ENDPOINT. It does not allow private networks
    # for webhooks, because PushFunction is not in a VPC.
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "AION_PUSH_NETWORKS",
}  # fmt: skip

# Names of CodeDeploy's gradual traffic shifts, such as Canary10Percent5Minutes.
SHIFT = re.compile(r"(?:Canary|(?P<linear>Linear))(?P<percent>[0-9]+)Percent(?:Every)?(?P<minutes>[0-9]+)Minutes?")
METRIC_SECONDS = 120
"""Seconds until CloudWatch has the metrics of a minute, including those of metric filters."""

Compared = tuple[str, Any, Any]
"""Comparison in the template: a name, a value and its expected value."""


def problems(deployment: ResolvedDeployment) -> Iterator[str]:
    """Yield an error message for each template value that differs from its expected value."""
    for rule in (_files, _environments, _options, _rights, _table, _bucket, _queues, _metrics, _shifts):
        for name, value, expected in rule(deployment):
            if isinstance(expected, Set) and value != expected:
                yield f"{name}: unexpected {sorted(value - expected)}, missing {sorted(expected - value)}"
            elif value != expected:
                yield f"{name}: {value!r}; expected {expected!r}"


def _files(deployment: ResolvedDeployment) -> Iterator[Compared]:
    configuration = json.dumps(deployment.template.properties("State")["Parameters"].get("Configuration"))
    for each in deployment.template.all:
        name, text = each.path.name, each.path.read_text(encoding="utf-8")
        is_nested = each is not deployment.template
        yield (
            f"more than {LONGEST_FILE} lines in {name} (move a resource to a nested stack in infra/)",
            not is_nested and len(text.splitlines()) > LONGEST_FILE,
            False,
        )
        yield f"a line without a reason in {name}", re.findall(r"^[^#\n]*ignore_checks[^#\n]*$", text, re.M), []
        yield f"the random name of the nested stack in {name}", is_nested and "AWS::StackName" in text, False
        used = json.dumps({**each.document, "Parameters": {}}, default=str).replace(configuration, "")
        unused = [parameter for parameter in each.document.get("Parameters") or {} if not _refers(used, parameter)]
        yield f"unused parameters in {name}", unused, []


def _environments(deployment: ResolvedDeployment) -> Iterator[Compared]:
    settings, *others = ROOT / "aion_core/settings.py", *(ROOT / "aion_core/lambda_runtime").glob("*.py")
    of_settings, *read = (
        set(re.findall(r'"([A-Z]+_[A-Z_]+)"', each.read_text(encoding="utf-8"))) for each in (settings, *others)
    )
    declared, everywhere = deployment.template.document["Parameters"], set[str]()
    counted = json.dumps(deployment.template.properties("State")["Parameters"]["Configuration"])
    for function in deployment.functions:
        environment, written = deployment.environment(function), deployment.template.properties(function)
        everywhere |= environment.keys()
        try:
            Settings.from_environ(environment)
        except ConfigurationError as error:
            yield f"start of {function}", str(error), "no error"
        unread = {name for name in environment if name.startswith("AION_")} - of_settings.union(*read)
        yield f"variables of {function} that no code reads", unread, set()
        configured = json.dumps(
            [written.get(part) for part in ("Environment", "MemorySize", "Architectures", "VpcConfig")]
        )
        for parameter in declared:
            if _refers(configured, parameter):
                # A function's configuration refers to this parameter. The State stack's Configuration must refer to it
                # too, so that a change of the parameter publishes a new version of the function.
                yield f"{parameter} in Configuration of State in template.yaml", _refers(counted, parameter), True
            variable = "AION_" + re.sub(r"(?<!^)(?=[A-Z])", "_", parameter).upper()
            if variable in environment and variable != "AION_BASE_URL":
                yield f"{variable} of {function}", environment[variable], deployment.given(parameter)
    unset = of_settings - everywhere - {"AWS_IAM"}
    yield "variables of settings.py without a function (set them, or list them in NOT_DEPLOYED)", unset, NOT_DEPLOYED


def _options(deployment: ResolvedDeployment) -> Iterator[Compared]:
    given, resources, attribute = deployment.given, deployment.resources, deployment.template.attribute
    environment = deployment.environment("ApiFunction")
    entrypoints = f"{given('ApiAuthorizer')},{given('FunctionUrlAuth')}"
    yield "AION_HTTP_ENTRYPOINTS", environment.get("AION_HTTP_ENTRYPOINTS"), entrypoints
    yield "AION_KMS_KEY", environment.get("AION_KMS_KEY"), given("CredentialsKey") or attribute("Key", "Arn", "Key")
    concurrency = deployment.functions["ApiFunction"].get("ReservedConcurrentExecutions", 0)
    yield "ApiFunction.ReservedConcurrentExecutions", int(concurrency), int(given("ApiConcurrency"))
    push = deployment.functions["PushFunction"].get("Timeout", 3)
    yield (
        "posts for one message within PushFunction.Timeout",
        push >= SHARE_SECONDS + POST_SECONDS + EXIT_SECONDS,
        True,
    )
    pattern = resources["AWS::Logs::MetricFilter"]["PushLoggedErrors"]["FilterPattern"]
    source = (ROOT / "aion_core/push/poster.py").read_text(encoding="utf-8")
    excluded = [f'error("{text}' in source for text in re.findall(r'message != "(.+?)[*]"', pattern)]
    yield "log message that PushLoggedErrors excludes", excluded, [True]
    network = (
        {name: given(name).split(",") for name in ("SubnetIds", "SecurityGroupIds")} if given("SubnetIds") else None
    )
    for name, function in deployment.functions.items():
        yield f"{name}.Runtime", function.get("Runtime"), "python{}.{}".format(*RUNTIME)
        yield (
            f"{name}.VpcConfig",
            function.get("VpcConfig"),
            network if name in ("ApiFunction", "TaskFunction") else None,
        )
    for name, api in resources["AWS::Serverless::Api"].items():
        yield f"{name}.DefaultAuthorizer", api["Auth"].get("DefaultAuthorizer"), given("ApiAuthorizer")
    for name, url in resources["AWS::Lambda::Url"].items():
        yield f"{name}.AuthType", url.get("AuthType"), given("FunctionUrlAuth")
    is_open = given("FunctionUrlAuth") == "NONE"
    yield "permissions", list(resources["AWS::Lambda::Permission"]), ["OpenUrl", "OpenInvoke"] if is_open else []
    for name, alarm in resources[ALARM].items():
        topic = given("AlarmTopic") or attribute("Topic", None, name)
        for actions in ("AlarmActions", "OKActions"):
            yield f"{name}.{actions}", alarm.get(actions), [topic]
        filled = {value for each in alarm.get("Metrics", []) for value in re.findall(r"FILL\(\w+, (\w+)\)", str(each))}
        yield f"{name}, substitutes for missing data", filled - {"0"}, set()
        reported = [topic] if alarm["TreatMissingData"] == "missing" else None
        yield f"{name}.InsufficientDataActions", alarm.get("InsufficientDataActions"), reported
    for name, table in resources[TABLE].items():
        yield (
            f"{name}.DeletionProtectionEnabled",
            table.get("DeletionProtectionEnabled"),
            given("DeletionProtection") == "true",
        )
    for name, group in resources["AWS::Logs::LogGroup"].items():
        yield f"{name}.RetentionInDays", str(group.get("RetentionInDays")), given("LogRetentionDays")


def _rights(deployment: ResolvedDeployment) -> Iterator[Compared]:
    """Check the IAM roles: an option may add only its own statements and policies to the roles of the defaults."""
    plain = ResolvedDeployment(deployment.template.path, {"CredentialsKey": deployment.given("CredentialsKey")})
    before = {role: _statements(properties) for role, properties in plain.resources[ROLE].items()}
    for role, properties in deployment.resources[ROLE].items():
        statements, has_agents = _statements(properties), role in ("ApiRole", "TaskRole")
        added = [sids for parameter, sids in ADDED.items() if has_agents and deployment.given(parameter)]
        own = {name for name in ("BasicUsers", "CardKey") if role == "ApiRole" and deployment.given(f"{name}Secret")}
        yield f"statements of {role}", {*statements}, before[role].keys() | own.union(*added)
        for name in ("AgentSecrets", "AgentSecretsKey", "BedrockModels", "BasicUsersSecret", "CardKeySecret"):
            if statement := statements.get(name.replace("UsersSecret", "Users").replace("CardKeySecret", "CardKey")):
                yield f"{name} of {role}", ",".join(_listed(statement["Resource"])), deployment.given(name)
        if profiles := statements.get("BedrockProfiles"):
            models = {"StringEquals": {"bedrock:InferenceProfileArn": deployment.given("BedrockModels").split(",")}}
            yield f"BedrockProfiles of {role}, condition", profiles.get("Condition"), models
        policies = deployment.given("AgentPolicyArns") if has_agents else ""
        yield f"managed policies of {role}", ",".join(properties.get("ManagedPolicyArns", [])), policies
        for sid, statement in statements.items():
            if sid in before[role]:
                yield f"{sid} of {role}, with options", statement, before[role][sid]
            for kind in _kinds_of_items(statement):
                yield f"{sid} of {role}, kind of items {kind}", kind in KINDS_OF_ITEMS - KEYS_OF_CALLERS, True
            wide = [each for each in _listed(statement.get("Resource", [])) if not NARROW.fullmatch(str(each))]
            yield f"wide resources of {sid} of {role}", [] if sid in WIDE else wide, []


def _kinds_of_items(statement: dict[str, Any]) -> list[str]:
    """Return the patterns of partition keys that a policy statement allows in the table, `*` without a condition."""
    actions, resources = (_listed(statement[part]) for part in ("Action", "Resource"))
    in_table = actions[0].startswith("dynamodb:") and any("/index/" not in each for each in resources)
    if not in_table or (statement["Sid"], actions) == ("ApiKeys", ["dynamodb:GetItem"]):
        return []
    return _listed(statement.get("Condition", {}).get("ForAllValues:StringLike", {}).get("dynamodb:LeadingKeys", "*"))


def _table(deployment: ResolvedDeployment) -> Iterator[Compared]:
    """Compare the DynamoDB table in the template with the schema in the code."""
    indexes = {each.name: each for each in vars(schema).values() if isinstance(each, Index)}
    for name, table in deployment.resources[TABLE].items():
        made = {"": table, **{each["IndexName"]: each for each in table.get("GlobalSecondaryIndexes", [])}}
        keys = {index: [each["AttributeName"] for each in each["KeySchema"]] for index, each in made.items()}
        yield f"keys of {name}", keys, {index: [each.partition, each.sort] for index, each in indexes.items()}
        types = {each["AttributeName"]: each["AttributeType"] for each in table["AttributeDefinitions"]}
        written = {each.partition: "S" for each in indexes.values()} | {e.sort: e.sort_type for e in indexes.values()}
        yield f"attributes of {name}", types, written
        projected = {index: made.get(index, {}).get("Projection", {}).get("NonKeyAttributes", []) for index in indexes}
        yield f"projections of {name}", projected, {index: [*each.copied] for index, each in indexes.items()}
        yield (
            f"TTL of {name}",
            table.get("TimeToLiveSpecification"),
            {"AttributeName": schema.TTL_ATTRIBUTE, "Enabled": True},
        )


def _queues(deployment: ResolvedDeployment) -> Iterator[Compared]:
    policies = deployment.resources.get("AWS::SQS::QueuePolicy", {}).values()
    urls = {url for policy in policies for url in policy["Queues"]}
    every = {f"{PLACE.endpoint}/{PLACE.account}/stack-State-{name}" for name in deployment.resources[QUEUE]}
    yield "queues with a policy", urls, every


def _bucket(deployment: ResolvedDeployment) -> Iterator[Compared]:
    """Check that S3 objects expire 15 days after their items' TTL, because DynamoDB deletes items late."""
    for days in deployment.template.document["Parameters"]["RetentionDays"]["AllowedValues"]:
        template = Template(deployment.template.path, deployment.template.place, {"RetentionDays": str(days)})
        expected = {f"{folder}/": math.ceil(days * times) + 15 for folder, times in schema.RETENTIONS.items()}
        for name in template.resources(BUCKET):
            rules = template.resolved(name, "LifecycleConfiguration")["LifecycleConfiguration"]["Rules"]
            expiring = [
                each
                for each in rules
                if each["Status"] == "Enabled" and re.search("Expiration(InDays|Date)", str(each))
            ]
            found = {each.get("Prefix"): each.get("ExpirationInDays") for each in expiring}
            yield f"expiry in {name} at RetentionDays={days}", found, expected


def _metrics(deployment: ResolvedDeployment) -> Iterator[Compared]:
    """Compare the metrics of alarms and graphs with the emitted metrics, and the alarms with docs/runbook.md."""
    resources, used = deployment.resources, list[tuple[str, str, str, dict[str, str]]]()
    runbook = (ROOT / "docs/runbook.md").read_text(encoding="utf-8")
    yield "alarms in docs/runbook.md", set(re.findall(r"^#+ +`?(\w+Alarm)\b", runbook, re.M)), {*resources[ALARM]}
    for name, alarm in resources[ALARM].items():
        yield (
            f"end of {name}.AlarmDescription",
            alarm["AlarmDescription"].split()[-1],
            f"docs/runbook.md#{name.lower()}",
        )
        yield f"{name}.AlarmName", alarm.get("AlarmName"), f"stack-{name}"
        queries = [each["MetricStat"]["Metric"] for each in alarm.get("Metrics", []) if "MetricStat" in each]
        for each in queries or [alarm]:
            dimensions = {pair["Name"]: pair["Value"] for pair in each.get("Dimensions", [])}
            used.append((name, each["Namespace"], each["MetricName"], dimensions))
    for board in resources["AWS::CloudWatch::Dashboard"].values():
        body = board["DashboardBody"]
        for widget in json.loads(body)["widgets"] if isinstance(body, str) else ():
            above: list[str] = []
            for row in widget["properties"]["metrics"]:
                # Expand a row: "." repeats the word above, and "..." repeats all words above except the last ones.
                words = [word for word in row if isinstance(word, str)]
                if words[0] == "...":
                    words = above[: len(above) - len(words) + 1] + words[1:]
                above = [above[n] if word == "." else word for n, word in enumerate(words)]
                used.append(
                    (widget["properties"]["title"], *above[:2], dict(zip(above[2::2], above[3::2], strict=True)))
                )
    (table,), (api,) = resources[TABLE].values(), resources["AWS::Serverless::Api"].values()
    values = {
        "FunctionName": [f"stack-{name}" for name in deployment.functions],
        "QueueName": [f"stack-State-{name}" for name in resources[QUEUE]],
        "TableName": [f"stack-State-{name}" for name in resources[TABLE]],
        "GlobalSecondaryIndexName": [each["IndexName"] for each in table["GlobalSecondaryIndexes"]],
        "ApiName": [api.get("Name")],
        "Stage": [api.get("StageName")],
        "service": ["stack"],
    }
    filters = [each["MetricTransformations"][0] for each in resources["AWS::Logs::MetricFilter"].values()]
    filtered = [(each["MetricNamespace"], each["MetricName"]) for each in filters]
    for user, namespace, metric, dimensions in used:
        is_aws = bool(dimensions) and metric in AWS_METRICS.get(namespace, "").split()
        is_aion = namespace == "aion" and metric in {*Metric} and dimensions.keys() == {"service"}
        exists = is_aws or is_aion or ((namespace, metric) in filtered and not dimensions)
        exists = exists and all(value in values[name] for name, value in dimensions.items())
        yield f"{user}: {namespace} {metric} of {dimensions}", "exists" if exists else "does not exist", "exists"


def _shifts(deployment: ResolvedDeployment) -> Iterator[Compared]:
    """Check that the alarms of gradual deployments can fire within the shortest traffic shift."""
    shifts = deployment.template.document["Parameters"]["Deployment"]["AllowedValues"]
    found = [SHIFT.fullmatch(each) for each in shifts]
    shortest = min(
        60 * int(each["minutes"]) * (100 // int(each["percent"]) - 1) ** bool(each["linear"]) for each in found if each
    )
    watched = deployment.functions["ApiFunction"]["DeploymentPreference"].get("Alarms", [])
    for name, alarm in deployment.resources[ALARM].items():
        if alarm.get("AlarmName") in watched:
            (period,) = {each["MetricStat"]["Period"] for each in alarm["Metrics"] if "MetricStat" in each}
            seconds = period * alarm.get("DatapointsToAlarm", alarm["EvaluationPeriods"]) + METRIC_SECONDS
            yield f"{name} fires during each traffic shift", seconds <= shortest, True


def _statements(role: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["Sid"]: each for policy in role.get("Policies", []) for each in policy["PolicyDocument"]["Statement"]}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _refers(document: str, parameter: str) -> bool:
    return f'{{"Ref": "{parameter}"}}' in document or f"${{{parameter}}}" in document
