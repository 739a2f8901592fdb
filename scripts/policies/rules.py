"""Rules about the template that cfn-lint cannot know: what aion's code, its data and its streams need."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Set
from typing import Any

from aion_core.delegation.callback_address import PATH as CALLBACKS
from aion_core.errors import ConfigurationError
from aion_core.push.client import POST_SECONDS
from aion_core.push.delivery import SHARE_SECONDS
from aion_core.push.poster import EXIT_SECONDS
from aion_core.settings import DEVELOPMENT, Settings
from aion_core.table import schema
from aion_core.table.item import Index
from aion_core.telemetry import Metric
from aion_tools.erasure.kinds import API_KEYS, ITEMS, OF_THE_DEPLOYMENT
from aion_tools.template.reader import ALARM, BUCKET, FUNCTION, MANAGED_POLICY, QUEUE, ROLE, TABLE, Template
from scripts.policies.deployment import PLACE, ROOT, ResolvedDeployment
from scripts.policies.sizes import policy_sizes

# Resources allowed in a policy statement: ARNs without wildcards, ARNs of secrets with six wildcards for the random
# suffix, and ARNs of this stack's own resources. Statements in WIDE may have others.
NARROW = re.compile(r"[^*?]+|arn:[^*?]+:secret:[^*?]+-[?]{6}|[^*?]*\bstack-[^*?]*[*]")
# Ids of policy statements that may have resources outside of NARROW, because AWS has no narrower ones.
WIDE = {"BedrockProfiles", "Network", "NetworkLists", "NetworkIsLambdas", "Alarms"}
# Roles of the functions that run agents.
OF_AGENTS = ("ApiRole", "TaskRole")
# State outlives its stack, but not a failed creation.
STATE = {"DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Retain"}
# Values that the resources of a type, or one of them, must have, by their paths.
REQUIRED: Mapping[str, Mapping[str, object]] = {
    TABLE: STATE
    | {"PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled": True, "SSESpecification.SSEEnabled": True},
    BUCKET: STATE
    | {
        f"PublicAccessBlockConfiguration.{each}": True
        for each in ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
    },
    # A replaced version may still run a turn or a stream.
    FUNCTION: {
        "UpdateReplacePolicy": "Retain",
        "LoggingConfig.LogFormat": "JSON",
        "AutoPublishAliasAllProperties": True,
    },
    # An edge-optimised API cuts a stream after 30 s of silence. Callers of a role would need lambda:InvokeFunction too.
    "AWS::Serverless::Api": {"EndpointConfiguration.Type": "REGIONAL", "Auth.InvokeRole": "NONE", "Cors": None},
    "AWS::KMS::Key/Key": STATE,
    "AWS::Lambda::Url": {"InvokeMode": "RESPONSE_STREAM", "Cors": None},
}
# Patterns of all partition keys, and of the keys of API-key items. The functions must not write API-key items.
KINDS_OF_ITEMS = {f"{prefix}*" for prefix in (*ITEMS, *OF_THE_DEPLOYMENT)}
KEYS_OF_CALLERS = {f"{prefix}*" for prefix, store in ITEMS.items() if store == API_KEYS}
AWS_METRICS = {
    "AWS/Lambda": "Invocations Errors Throttles ConcurrentExecutions",
    "AWS/SQS": "ApproximateNumberOfMessagesVisible ApproximateAgeOfOldestMessage",
    "AWS/ApiGateway": "Count 4XXError 5XXError",
    "AWS/DynamoDB": "ReadThrottleEvents WriteThrottleEvents",
}
# Environment variables of settings.py that the template does not set.
NOT_DEPLOYED = {
    # Only development sets these variables, because their defaults are for AWS. `sam local` does not need them.
    "AION_CARD_KEY_FILE", "AION_BASIC_USERS_FILE", "AION_SECRETS", "AION_PUSH_RECEIVER",
    "AION_SQLITE_FOLDER", "AION_TURNS_AT_ONCE", "AION_STORE_CALLS", "AION_STORE_TIMEOUT",
    # Lambda or a function's LoggingConfig sets these variables.
    "AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_INITIALIZATION_TYPE", "AWS_LAMBDA_LOG_LEVEL", "POWERTOOLS_LOG_LEVEL",
    # Instead of this variable, the template sets OTEL_EXPORTER_OTLP_ENDPOINT.
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
}  # fmt: skip

Compared = tuple[str, Any, Any]
"""Comparison in the template: a name, a value and its expected value."""


def problems(deployment: ResolvedDeployment) -> Iterator[str]:
    """Yield an error message for each template value that differs from its expected value."""
    for rule in (
        _required, _environments, _entrypoints, _options, _push, _rights, _sizes, _table, _bucket, _queues, _metrics,
    ):  # fmt: skip
        for name, value, expected in rule(deployment):
            if isinstance(expected, Set) and value != expected:
                yield f"{name}: unexpected {sorted(value - expected)}, missing {sorted(expected - value)}"
            elif value != expected:
                yield f"{name}: {value!r}; expected {expected!r}"


def _required(deployment: ResolvedDeployment) -> Iterator[Compared]:
    for resources, values in REQUIRED.items():
        kind, _, only = resources.partition("/")
        for name, resource in deployment.resources[kind].items():
            for path, expected in values.items() if only in ("", name) else ():
                value: Any = resource
                for part in path.split("."):
                    value = (value or {}).get(part)
                yield f"{name}.{path}", value, expected


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
        development = {name: environment.get(name) for name in DEVELOPMENT}
        yield f"development variables of {function}", development, dict.fromkeys(DEVELOPMENT, "")
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


def _entrypoints(deployment: ResolvedDeployment) -> Iterator[Compared]:
    given, resources = deployment.given, deployment.resources
    entrypoints = f"{given('ApiAuthorizer')},{given('FunctionUrlAuth')}"
    yield "AION_HTTP_ENTRYPOINTS", deployment.environment("ApiFunction").get("AION_HTTP_ENTRYPOINTS"), entrypoints
    for name, api in resources["AWS::Serverless::Api"].items():
        yield f"{name}.DefaultAuthorizer", api["Auth"].get("DefaultAuthorizer"), given("ApiAuthorizer")
    for name, url in resources["AWS::Lambda::Url"].items():
        yield f"{name}.AuthType", url.get("AuthType"), given("FunctionUrlAuth")
    is_open = given("FunctionUrlAuth") == "NONE"
    yield "permissions", list(resources["AWS::Lambda::Permission"]), ["OpenUrl", "OpenInvoke"] if is_open else []
    for name, event in deployment.functions["ApiFunction"]["Events"].items():
        found = {key: event["Properties"].get(key) for key in ("ResponseTransferMode", "TimeoutInMillis", "Auth")}
        is_callback = (event["Properties"]["Path"], event["Properties"]["Method"]) == (CALLBACKS, "POST")
        auth = {"Authorizer": "NONE"} if is_callback else None
        streams = {"ResponseTransferMode": "RESPONSE_STREAM", "TimeoutInMillis": 900_000, "Auth": auth}
        yield f"{name} of ApiFunction", found, streams


def _options(deployment: ResolvedDeployment) -> Iterator[Compared]:
    """Check parameters without which a deployment still runs: only its operator would miss their effect."""
    given, attribute = deployment.given, deployment.template.attribute
    key = given("CredentialsKey") or attribute("Key", "Arn", "Key")
    yield "AION_KMS_KEY", deployment.environment("ApiFunction").get("AION_KMS_KEY"), key
    protects = [table.get("DeletionProtectionEnabled") for table in deployment.resources[TABLE].values()]
    yield "Table.DeletionProtectionEnabled", protects, [given("DeletionProtection") == "true"]
    topic = given("AlarmTopic") or attribute("Topic", None, "Topic")
    for name, alarm in deployment.resources[ALARM].items():
        yield f"{name}.AlarmActions", alarm.get("AlarmActions"), [topic]
    lists = {name: given(name).split(",") for name in ("SubnetIds", "SecurityGroupIds")} if given("SubnetIds") else None
    groups = [each["LogGroupName"] for each in deployment.resources["AWS::Logs::LogGroup"].values()]
    for name, function in deployment.functions.items():
        yield f"{name}.LoggingConfig.LogGroup", function["LoggingConfig"]["LogGroup"] in groups, True
        yield f"{name}.VpcConfig", function.get("VpcConfig"), lists if name in ("ApiFunction", "TaskFunction") else None


def _push(deployment: ResolvedDeployment) -> Iterator[Compared]:
    timeout = deployment.functions["PushFunction"].get("Timeout", 3)
    needed = SHARE_SECONDS + POST_SECONDS + EXIT_SECONDS
    yield "posts for one message within PushFunction.Timeout", timeout >= needed, True
    pattern = deployment.resources["AWS::Logs::MetricFilter"]["PushLoggedErrors"]["FilterPattern"]
    source = (ROOT / "aion_core/push/poster.py").read_text(encoding="utf-8")
    excluded = [f'error("{text}' in source for text in re.findall(r'message != "(.+?)[*]"', pattern)]
    yield "log message that PushLoggedErrors excludes", excluded, [True]


def _rights(deployment: ResolvedDeployment) -> Iterator[Compared]:
    """Check the IAM roles: narrow resources, no API keys written, and agents' own policies in the agents' roles only."""
    for role, properties in deployment.resources[ROLE].items():
        policies = deployment.given("AgentPolicyArns") if role in OF_AGENTS else ""
        yield f"managed policies of {role}", ",".join(properties.get("ManagedPolicyArns", [])), policies
        for policy in properties.get("Policies", []):
            yield from _statements(deployment, role, policy["PolicyDocument"])
    agents = [deployment.template.attribute(role, None, role) for role in OF_AGENTS]
    for name, policy in deployment.resources[MANAGED_POLICY].items():
        yield f"roles of {name}", policy["Roles"], agents
        yield from _statements(deployment, name, policy["PolicyDocument"])


def _statements(deployment: ResolvedDeployment, holder: str, document: dict[str, Any]) -> Iterator[Compared]:
    for statement in document["Statement"]:
        sid = statement["Sid"]
        for kind in _kinds_of_items(statement):
            yield f"{sid} of {holder}, kind of items {kind}", kind in KINDS_OF_ITEMS - KEYS_OF_CALLERS, True
        if sid == "BedrockProfiles":
            models = {"bedrock:InferenceProfileArn": deployment.given("BedrockModels").split(",")}
            yield f"{sid} of {holder}, condition", statement.get("Condition"), {"StringEquals": models}
        wide = [each for each in _listed(statement["Resource"]) if not NARROW.fullmatch(str(each))]
        yield f"wide resources of {sid} of {holder}", [] if sid in WIDE else wide, []


def _sizes(deployment: ResolvedDeployment) -> Iterator[Compared]:
    """Check that the policies fit IAM's limits with the longest names and lists, because AWS refuses them late."""
    for name, (size, limit) in policy_sizes(deployment.template.path).items():
        yield f"{name}: at most {size} characters of policies, and IAM permits {limit}", size <= limit, True


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
    policies = list(deployment.resources.get("AWS::SQS::QueuePolicy", {}).values())
    urls = {url for policy in policies for url in policy["Queues"]}
    every = {f"{PLACE.endpoint}/{PLACE.account}/stack-State-{name}" for name in deployment.resources[QUEUE]}
    yield "queues with a policy", urls, every
    for policy in (*policies, *deployment.resources["AWS::S3::BucketPolicy"].values()):
        (statement,) = policy["PolicyDocument"]["Statement"]
        found = (statement["Effect"], statement["Principal"], statement["Condition"])
        yield (
            "policy that refuses requests without TLS",
            found,
            ("Deny", "*", {"Bool": {"aws:SecureTransport": "false"}}),
        )
    for function, name in (("TaskFunction", "TaskQueue"), ("PushFunction", "PushQueue")):
        queue = deployment.resources[QUEUE][name]
        # A message stays hidden while its function may run. A throttled call counts as a receive: allow hours of them.
        yield f"{name}.VisibilityTimeout", 900 <= queue["VisibilityTimeout"] <= 1000, True
        yield f"{name}.RedrivePolicy.maxReceiveCount", queue["RedrivePolicy"]["maxReceiveCount"] >= 20, True
        event = deployment.functions[function]["Events"]["WakeUp"]["Properties"]
        answers = (event.get("BatchSize"), event.get("FunctionResponseTypes"))
        # A message may need a whole invocation, and one that fails returns to the queue alone.
        yield f"WakeUp of {function}", answers, (1, ["ReportBatchItemFailures"])
        # By default Lambda stops a function that calls itself by a queue 16 times.
        yield f"{function}.RecursiveLoop", deployment.functions[function].get("RecursiveLoop"), "Allow"


def _bucket(deployment: ResolvedDeployment) -> Iterator[Compared]:
    """Check that S3 objects expire 15 days after their items' TTL, because DynamoDB deletes items late."""
    for days in deployment.template.document["Parameters"]["RetentionDays"]["AllowedValues"]:
        template = Template(deployment.template.path, deployment.template.place, {"RetentionDays": str(days)})
        expected = {f"{folder}/": math.ceil(days * times) + 15 for folder, times in schema.RETENTIONS.items()}
        for name in template.resources(BUCKET):
            rules = template.resolved(name, "LifecycleConfiguration")["LifecycleConfiguration"]["Rules"]
            enabled = [each for each in rules if each["Status"] == "Enabled" and "Prefix" in each]
            found = {each["Prefix"]: each.get("ExpirationInDays") for each in enabled}
            yield f"expiry in {name} at RetentionDays={days}", found, expected


def _metrics(deployment: ResolvedDeployment) -> Iterator[Compared]:
    """Compare the metrics of alarms with the emitted metrics, and the alarms with docs/runbook.md."""
    resources, used = deployment.resources, list[tuple[str, str, str, dict[str, str]]]()
    runbook = (ROOT / "docs/runbook.md").read_text(encoding="utf-8")
    yield "alarms in docs/runbook.md", set(re.findall(r"^#+ +`?(\w+Alarm)\b", runbook, re.M)), {*resources[ALARM]}
    for name, alarm in resources[ALARM].items():
        link = alarm["AlarmDescription"].split()[-1]
        yield f"end of {name}.AlarmDescription", link, f"docs/runbook.md#{name.lower()}"
        yield f"{name}.AlarmName", alarm.get("AlarmName"), f"stack-{name}"
        queries = [each["MetricStat"]["Metric"] for each in alarm.get("Metrics", []) if "MetricStat" in each]
        for each in queries or [alarm]:
            dimensions = {pair["Name"]: pair["Value"] for pair in each.get("Dimensions", [])}
            used.append((name, each["Namespace"], each["MetricName"], dimensions))
    values = {
        "FunctionName": [f"stack-{name}" for name in deployment.functions],
        "QueueName": [f"stack-State-{name}" for name in resources[QUEUE]],
        "TableName": [f"stack-State-{name}" for name in resources[TABLE]],
        "GlobalSecondaryIndexName": [each.name for each in vars(schema).values() if isinstance(each, Index)],
        "ApiName": [each.get("Name") for each in resources["AWS::Serverless::Api"].values()],
        "Stage": [each.get("StageName") for each in resources["AWS::Serverless::Api"].values()],
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


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _refers(document: str, parameter: str) -> bool:
    return f'{{"Ref": "{parameter}"}}' in document or f"${{{parameter}}}" in document
