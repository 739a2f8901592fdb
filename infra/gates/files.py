"""The template's files: short enough to be read, what each nested stack is given, and why a linter is told to be quiet."""

import json
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any

from aion_core.template.reader import STACK, Template
from infra.gates.deployed import Deployed, listed, uses

# A third of the outermost are parameters, which can be nowhere else.
LONGEST_FILE = 600
_SUPPRESSION = re.compile(r"ignore_checks|cfn-lint-disable|^\s*-\s*[EWI]\d{4}\b")


def problems(deployed: Deployed) -> Iterator[str]:
    """Yield what is wrong with how the files are written and put together."""
    yield from _unused(deployed.template)
    outermost = deployed.template.path
    if len(outermost.read_text(encoding="utf-8").splitlines()) > LONGEST_FILE:
        yield f"{outermost.name} has more than {LONGEST_FILE} lines: the rest goes into a nested stack in infra/"
    for file in deployed.documents:
        before = ""
        text = file.read_text(encoding="utf-8")
        for line in text.splitlines():
            if _SUPPRESSION.search(line) and "#" not in line and not before.lstrip().startswith("#"):
                yield f"{file.name} keeps the linter quiet without a reason: {line.strip()}"
            before = line
        if file != outermost and re.search(r"AWS::StackName", text):
            yield f"{file.name}: AWS::StackName is the nested stack's own there, with something random behind"
    yield from _given(deployed)
    yield from _nested(deployed)
    for file, document in deployed.documents.items():
        try:
            TopologicalSorter(_dependencies(document["Resources"])).prepare()
        except CycleError as error:
            yield f"{file.name} waits for itself: {' -> '.join(error.args[1])}"


def _unused(template: Template) -> Iterator[str]:
    """What an operator sets has an effect, besides being in the configuration that numbers what was set."""
    document = {part: template.document.get(part) for part in ("Conditions", "Globals", "Resources", "Outputs")}
    configuration = json.dumps(template.properties("State")["Parameters"].get("Configuration"))
    said = json.dumps(document, default=str).replace(configuration, "")
    for parameter in template.document["Parameters"]:
        if not uses(said, parameter):
            yield f"{template.path.name}: nothing uses the parameter {parameter}"


def _given(deployed: Deployed) -> Iterator[str]:
    """CloudFormation takes a parameter that fits its pattern."""
    for name, value in deployed.parameters.items():
        pattern = deployed.template.document["Parameters"][name].get("AllowedPattern", ".*")
        if not re.fullmatch(pattern, value):
            yield f"{name} is {value!r}, which its AllowedPattern refuses"


def _dependencies(resources: dict[str, Any]) -> dict[str, set[str]]:
    """Return what each resource waits for: an alias for its deployment's group too, which no linter looks at."""
    waits: dict[str, set[str]] = {}
    for name, resource in resources.items():
        text = json.dumps(resource, default=str)
        named = {*re.findall(r'"Ref": "(\w+)"', text), *re.findall(r'"Fn::GetAtt": \["(\w+)"', text)}
        named |= {*re.findall(r"\$\{(\w+)[.}]", text), *listed(resource.get("DependsOn", []))}
        waits[name] = named & resources.keys() - {name}
    return waits


def _nested(deployed: Deployed) -> Iterator[str]:
    """A nested stack gets every parameter that it needs, and has every output that is asked of it."""
    documents = {file.name: document for file, document in deployed.documents.items()}
    for document in deployed.documents.values():
        stacks = {name: each["Properties"] for name, each in document["Resources"].items() if each["Type"] == STACK}
        nested = {name: documents[each["TemplateURL"].rpartition("/")[2]] for name, each in stacks.items()}
        for name, properties in stacks.items():
            declared = nested[name].get("Parameters", {})
            needed = {parameter for parameter, each in declared.items() if "Default" not in each}
            for parameter in sorted(needed - properties.get("Parameters", {}).keys()):
                yield f"{name} is not given its parameter {parameter}"
            said = json.dumps(nested[name], default=str)
            for parameter in sorted(declared):
                if not uses(said, parameter):
                    yield f"{name}: nothing uses the parameter {parameter}"
        for name, output in _asked(document):
            if name in nested and output not in nested[name].get("Outputs", {}):
                yield f"{name} has no output {output}"


def _asked(part: Any) -> Iterator[tuple[str, str]]:
    """Yield the outputs of nested stacks that are asked for, anywhere in it."""
    if isinstance(part, list):
        for each in part:
            yield from _asked(each)
    elif isinstance(part, dict):
        match part.get("Fn::GetAtt"):
            case [str(name), str(attribute)] if attribute.startswith("Outputs."):
                yield name, attribute.removeprefix("Outputs.")
        for each in part.values():
            yield from _asked(each)
