"""How the functions are deployed and set up: which versions, which code they name, which variables they have."""

import json
import os
from collections.abc import Iterator
from typing import Any

from aion_core.template.reader import ALARM, FUNCTION, STACK, Template
from infra.gates.code import constants, core, names, variables_read, with_handler
from infra.gates.deployed import Deployed, runs_agents, uses
from infra.gates.metrics import of_alarm

OWN = "AION_"
# What of a function parameters decide, and a version freezes.
CONFIGURED = ("Environment", "MemorySize", "Architectures", "Timeout", "VpcConfig")
# Variables that settings.py reads and no function has, and why.
NOT_DEPLOYED = {
    "AION_STORE": "on AWS it is dynamodb, the default",
    "AION_PUSH_HTTP": "for development: webhooks on the developer's machine",
    "AION_PUSH_NETWORKS": "for a project that puts PushFunction into a VPC; here it is in none",
    "AION_CARD_KEY_FILE": "for development: on AWS a key lies in Secrets Manager",
    "AION_BASIC_USERS_FILE": "for development: on AWS passwords lie in Secrets Manager",
    "AION_SECRETS": "for development: on AWS the secrets of aion.yaml are read",
    "AION_REVEAL_ERRORS": "for development: an agent's own error text is no client's",
    "AWS_LAMBDA_FUNCTION_NAME": "Lambda sets it",
    "AWS_SAM_LOCAL": "SAM sets it, in the containers of `sam local`",
    "AWS_LAMBDA_LOG_LEVEL": "Lambda sets it, by LoggingConfig's ApplicationLogLevel",
    "POWERTOOLS_LOG_LEVEL": "LoggingConfig's ApplicationLogLevel is Lambda's own way",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "OTEL_EXPORTER_OTLP_ENDPOINT is set, and nothing but traces is sent",
    "AION_SQLITE_FOLDER": "for `aion dev`, which stores everything in files of one folder",
    "AION_TURNS_AT_ONCE": "for `aion dev`, which has no function that SQS scales",
    "AION_STORE_CALLS": "for `aion dev`, whose emulator answers one call at a time",
    "AION_STORE_TIMEOUT": "for `aion dev`, whose emulator is slow",
}

# What else a function needs that does this: where it is missing, the function starts.
NEEDED = {
    "handlers.api.handler": {"AION_CONFIG", "AION_KMS_KEY", "AION_PUSH_HOSTS", "AION_PUSH_PORTS"},
    "handlers.run_task.handler": {"AION_CONFIG", "AION_KMS_KEY"},
    "handlers.deliver_push.handler": {"AION_KMS_KEY", "AION_PUSH_HOSTS", "AION_PUSH_PORTS"},
}
# Where aion says for which Python people are to build.
BUILT_FOR = "cli/checks/local.py"


def problems(deployed: Deployed) -> Iterator[str]:
    """Yield which functions cannot start, or would run the wrong code."""
    yield from _versions(deployed)
    yield from _code(deployed.template)
    yield from _variables(deployed.template)
    yield from _surroundings(deployed.template)


def _versions(deployed: Deployed) -> Iterator[str]:
    """What is deployed is a version, which the alias comes to step by step, and goes back from when an alarm rings."""
    template, plain = deployed.template, deployed.plain["Resources"]
    for function in template.resources(FUNCTION):
        properties = template.properties(function)
        if not properties.get("AutoPublishAlias"):
            yield f"{function} has no alias: nothing can be rolled back"
        if properties.get("AutoPublishAliasAllProperties") is not True:
            yield f"{function} goes on with its old environment when a parameter changes: AutoPublishAliasAllProperties"
        # SAM's hash of a function holds the names of parameters, not what they say; and of a function that is as it was
        # Lambda publishes no version, which fails the deployment.
        for described in ("VersionDescription", "Description"):
            if "State.Outputs.ConfigurationVersion" not in json.dumps(properties.get(described)):
                yield f"{function} goes on with its old environment when a parameter changes: its {described} has to change"
        if f"{function}DeploymentGroup" not in plain:
            yield f"{function} is given all requests at once, and no alarm is asked: DeploymentPreference"
    yield from _configuration(template)
    for name, group in deployed.resources("AWS::CodeDeploy::DeploymentGroup"):
        properties = group["Properties"]
        at_once = "AllAtOnce" in json.dumps(properties["DeploymentConfigName"])
        asked = _asked(template, properties.get("AlarmConfiguration") or {})
        function = name.removesuffix("DeploymentGroup")
        if not at_once and not asked:
            yield f"{name} shifts traffic and asks no alarm"
        elif not at_once and not _rings_for_errors(template, function, asked):
            yield f"{name} shifts traffic, and none of the alarms that it asks rings for errors of {function}"
    for name, resource in plain.items():
        given = resource["Properties"].get("Parameters", {}) if resource["Type"] == STACK else {}
        for parameter, value in given.items():
            if isinstance(value, dict) and value.get("Fn::GetAtt", [""])[0] in template.resources(FUNCTION):
                yield f"{name}.{parameter} goes round the alias: it has to be the function's .Alias, or its name"


def _asked(template: Template, configuration: dict[str, Any]) -> list[str]:
    """Return the names of the alarms that a deployment is held to, as SAM has written it down: perhaps under a condition."""
    if "Fn::If" in configuration:
        condition, *either = configuration["Fn::If"]
        return _asked(template, either[template.resolve({"Fn::If": [condition, 0, 1]}, "AlarmConfiguration")])
    return [each["Name"] for each in template.resolve(configuration.get("Alarms", []), "AlarmConfiguration")]


def _rings_for_errors(template: Template, function: str, asked: list[str]) -> bool:
    called = template.attribute(function, None, function)
    return any(
        metric == "Errors" and called in dimensions.values()
        for alarm in template.resources(ALARM)
        if template.attribute(alarm, None, alarm) in asked
        for _, metric, dimensions in of_alarm(template, alarm)
    )


def _configuration(template: Template) -> Iterator[str]:
    """Every parameter that a function is told is in the configuration whose number makes its version."""
    functions = [template.document.get("Globals", {}).get("Function", {})]
    functions += [template.properties(name) for name in template.resources(FUNCTION)]
    told = json.dumps([[each.get(part) for part in CONFIGURED] for each in functions])
    counted = json.dumps(template.properties("State")["Parameters"]["Configuration"])
    for parameter in template.document["Parameters"]:
        if uses(told, parameter) and not uses(counted, parameter):
            yield f"{parameter} is not in State's Configuration: when it changes, no function would be told"


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
            if not file.is_file() or name not in names(file):
                yield f"{function}: there is no {name} in {file.relative_to(code)}"
        wrapper = environment.get("AWS_LAMBDA_EXEC_WRAPPER")
        if wrapper is not None and not os.access(code / wrapper.removeprefix("/var/task/"), os.X_OK):
            yield f"{function}: {wrapper} is not a program of the project"


def _variables(template: Template) -> Iterator[str]:
    """A function's environment says what aion's code reads of it, and nothing that no code reads."""
    code = core(template)
    settings = variables_read(code / "settings.py")
    needed = {name for name, has_default in settings.items() if not has_default}
    runtime = {name for file in (code / "lambda_runtime").glob("*.py") for name in variables_read(file)}
    everywhere: set[str] = set()
    for function in template.resources(FUNCTION):
        environment = template.environment(function)
        given = {name for name in environment if name.startswith(OWN)}
        everywhere |= environment.keys()
        for name in sorted(given - settings.keys() - runtime):
            yield f"{function}: nothing reads {name}"
        for name in sorted(needed - {name for name in given if environment[name]}):
            yield f"{function}: {name} is missing, or empty, and has no default"
        for name in sorted(NEEDED.get(template.properties(function)["Handler"], set()) - environment.keys()):
            yield f"{function}: {name} is missing, and what it decides would be as if nobody had decided it"
        if environment.get("POWERTOOLS_SERVICE_NAME") != template.place.stack_name:
            yield f"{function}: POWERTOOLS_SERVICE_NAME is not the stack's name, by which alarms find its metrics"
    for name in sorted(settings.keys() - everywhere - NOT_DEPLOYED.keys()):
        yield f"settings.py reads {name}, which no function has: set it, or say in NOT_DEPLOYED why not"
    for name in sorted(NOT_DEPLOYED.keys() - settings.keys()):
        yield f"NOT_DEPLOYED has {name}, which settings.py does not read"
    for name in sorted(NOT_DEPLOYED.keys() & everywhere):
        yield f"NOT_DEPLOYED has {name}, and a function has it too"


def _surroundings(template: Template) -> Iterator[str]:
    """The Python, the network and the concurrency that a function has are those that it was made for."""
    built_for = "python" + ".".join(map(str, constants(core(template) / BUILT_FOR)["RUNTIME"]))
    for function in template.resources(FUNCTION):
        said = template.resolved(function, "Runtime", "ReservedConcurrentExecutions")
        if said.get("Runtime") != built_for:
            yield f"{function} runs on {said.get('Runtime')}, and `aion doctor` has its packages built by {built_for}"
        reserved = said.get("ReservedConcurrentExecutions")
        if reserved is not None and int(reserved) == 0:
            yield f"{function} refuses every call: of ReservedConcurrentExecutions 0 is none, and leaving it out is as many as there are"
        if template.written_events(function, "Api") and int(reserved or 0) != int(_given(template, "ApiConcurrency")):
            yield f"{function} has {reserved or 'nothing'} set aside, and ApiConcurrency says {_given(template, 'ApiConcurrency')}"
    for function in with_handler(template, "handlers.deliver_push.handler"):
        if "VpcConfig" in template.properties(function):
            yield f"{function} calls addresses that strangers have chosen, and in a VPC reaches what is nobody's but yours"
    for function in template.resources(FUNCTION):
        written = json.dumps(template.properties(function).get("VpcConfig"))
        is_in_it = [uses(written, parameter) for parameter in ("SubnetIds", "SecurityGroupIds")]
        if runs_agents(template, function) and not all(is_in_it):
            yield f"{function} runs agents, and its VpcConfig does not say SubnetIds and SecurityGroupIds"
        elif not runs_agents(template, function) and written != "null":
            yield f"{function} runs no agents, and what is in the VPC is for them"


def _given(template: Template, parameter: str) -> Any:
    return template.resolve({"Ref": parameter}, parameter)
