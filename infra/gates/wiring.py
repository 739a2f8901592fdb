"""What is connected with what: queues with who answers them, nested stacks with each other, variables with parameters."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from aion_core.template.reader import BUCKET, FUNCTION, QUEUE, STACK, TABLE, Template
from infra.gates.code import with_handler
from infra.gates.deployed import Deployed

# Who hears the bells of the queue that a variable names.
HEARD_BY = {
    "AION_TASK_QUEUE_URL": "handlers.run_task.handler",
    "AION_PUSH_QUEUE_URL": "handlers.deliver_push.handler",
}
# What a variable names has to be of this kind, and of this template.
NAMED = {"AION_TABLE": TABLE, "AION_BUCKET": BUCKET}


def problems(deployed: Deployed) -> Iterator[str]:
    """Yield what was taken for something else."""
    yield from _work_queue(deployed.template)
    yield from _mappings(deployed.template)
    yield from _variables(deployed.template)
    for each in deployed.template.all:
        yield from _given(deployed.template, each)
        yield from _outputs(each)
    yield from _fronts(deployed.template)


def _work_queue(template: Template) -> Iterator[str]:
    """A bell is rung where it is heard."""
    queues = {
        template.attribute(name, "Arn", name): template.attribute(name, None, name)
        for name in template.resources(QUEUE)
    }
    for variable, handler in HEARD_BY.items():
        heard = {
            queues.get(event["Queue"])
            for function in with_handler(template, handler)
            for _, _, event in template.events(function, "SQS")
        }
        for function in template.resources(FUNCTION):
            enqueued = template.environment(function).get(variable)
            if enqueued is not None and enqueued not in heard:
                yield f"{function} rings at {enqueued} by {variable}, where {handler} hears nothing: what waits would not go on"


def _mappings(template: Template) -> Iterator[str]:
    """One bell has a function's whole time, and many bells do not take the whole account."""
    for function in template.resources(FUNCTION):
        for name, _, event in template.events(function, "SQS"):
            if int(event.get("BatchSize", 10)) != 1:
                yield f"{function}.{name}: the bells of a batch wait for one another: BatchSize has to be 1"
            if "MaximumConcurrency" not in event.get("ScalingConfig", {}):
                yield f"{function}.{name}: when many wait nothing is left of the account for requests: MaximumConcurrency"


def _variables(template: Template) -> Iterator[str]:
    """A variable says what the parameter of its own name says, and names what there is."""
    for function in template.resources(FUNCTION):
        environment = template.environment(function)
        for variable, kind in NAMED.items():
            there = {template.attribute(name, None, name) for name in template.resources(kind)}
            if variable in environment and environment[variable] not in there:
                yield f"{function}: {variable} is {environment[variable]!r}, and no {kind} of the template is called so"
        written = template.properties(function).get("Environment", {}).get("Variables", {})
        for variable, value in written.items():
            parameter = value.get("Ref", "") if isinstance(value, dict) else ""
            if parameter in template.document["Parameters"] and variable.startswith("AION_"):
                named = "AION_" + re.sub(r"(?<!^)(?=[A-Z])", "_", parameter).upper()
                if named != variable:
                    yield f"{function}: {variable} says what {parameter} says: nobody who sets that expects it"


def _fronts(template: Template) -> Iterator[str]:
    """A Function URL is the one of the function that answers requests."""
    aliases = [f"{name}.Alias" for name in template.resources(FUNCTION) if template.written_events(name, "Api")]
    for _, given, nested in _nested(template, template):
        for name, resource in nested.document["Resources"].items():
            if resource["Type"] == "AWS::Lambda::Url":
                target = given.get(resource["Properties"]["TargetFunctionArn"].get("Ref"), {}).get("Ref")
                if target not in aliases:
                    yield f"{name} leads to {target or 'nothing that is known'}, which answers no requests"


def _given(template: Template, each: Template) -> Iterator[str]:
    """A nested stack is given for each parameter what is called so where it comes from."""
    own = each.document.get("Parameters", {})
    for name, given, nested in _nested(template, each):
        declared = nested.document.get("Parameters", {})
        for parameter, value in given.items():
            match value:
                case {"Fn::GetAtt": [_, str(output)]}:
                    source = output.removeprefix("Outputs.")
                    # A part of what it comes from may be what is wanted: the table, by its name or its ARN.
                    is_other = _longest(declared, source) != parameter
                case {"Ref": str(source)}:
                    is_known = source in declared or parameter in own
                    is_other = is_known and source.rpartition(".")[2] != parameter
                case _:
                    continue
            if is_other:
                yield f"{name} is given {source} for its parameter {parameter}"


def _nested(template: Template, each: Template) -> Iterator[tuple[str, dict[str, Any], Template]]:
    """Yield the stacks that are nested in one of the templates: what they are called, are given, and are."""
    files = {every.path.name: every for every in template.all}
    for name, resource in each.document["Resources"].items():
        if resource["Type"] == STACK:
            properties = resource["Properties"]
            yield name, properties.get("Parameters", {}), files[properties["TemplateURL"].rpartition("/")[2]]


def _outputs(template: Template) -> Iterator[str]:
    """An output that is called like a resource is that resource's, or like a nested stack's output is that one."""
    for name, output in (template.document.get("Outputs") or {}).items():
        value = output.get("Value")
        owner = _longest(template.document["Resources"], name)
        if owner is not None and not re.search(rf'"{owner}"|\$\{{{owner}[.}}]', json.dumps(value)):
            yield f"{template.path.name}: the output {name} says nothing of {owner}"
        match value:
            case {"Fn::GetAtt": [_, str(asked)]} if asked.startswith("Outputs."):
                if _longest([asked.removeprefix("Outputs.")], name) is None:
                    yield f"{template.path.name}: the output {name} is {asked.removeprefix('Outputs.')} of a nested stack"


def _longest(names: Iterable[str], text: str) -> str | None:
    """Return the longest of the names that the text begins with."""
    return max((name for name in names if text.startswith(name)), key=len, default=None)
