"""SAM template reader that resolves parameters, conditions, references and nested stacks as CloudFormation does."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from aion_tools.shipped import shipped
from aion_tools.template import stacks
from aion_tools.template.file import TemplateError, UnresolvableError, load
from aion_tools.template.names import (
    ALARM,
    APPLICATION,
    ATTRIBUTES,
    BUCKET,
    FUNCTION,
    KEY,
    LOG_GROUP,
    MANAGED_POLICY,
    NAME_PROPERTY,
    QUEUE,
    ROLE,
    STACK,
    TABLE,
    TOPIC,
    Place,
)

__all__ = [
    "ALARM",
    "BUCKET",
    "FUNCTION",
    "KEY",
    "LOG_GROUP",
    "MANAGED_POLICY",
    "QUEUE",
    "ROLE",
    "STACK",
    "TABLE",
    "TOPIC",
    "Place",
    "Template",
    "TemplateError",
    "UnresolvableError",
    "project_template",
    "template_file",
]

_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_NOTHING = object()
_UUID = "00000000-0000-4000-8000-000000000000"
"""Last part of the resolved id of a stack."""
_LOCATIONS = {STACK: "TemplateURL", APPLICATION: "Location"}
"""Name of the property with the template of a nested stack, by resource type."""


class _ParentValue(Struct, frozen=True):
    """Parameter value given to a nested stack by its parent template, resolved on first use."""

    template: "Template"
    value: Any
    where: str


class Template:
    """SAM template with its nested stacks and applications. `parameters` replace the defaults of its parameters.

    Logical ids are unique over all template files, so a resource of a nested stack is found by its logical id alone.
    Files of a project's `.aion/stacks` are read from the package, so the folder need not exist.
    """

    def __init__(self, path: Path, place: Place, parameters: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self.place = place
        self.document = load(stacks.source(path))
        """Parsed template file with short tags expanded. Do not change it."""
        self._parameters = self._parameter_values(parameters or {})
        self._nested = {name: self._read_nested(name) for name in self._nested_files()}
        self._owners = self._resource_owners()

    # --- Contents ---

    @property
    def all(self) -> list["Template"]:
        """List of this template and the templates of all nested stacks."""
        return [self, *(each for nested in self._nested.values() for each in nested.all)]

    @property
    def made(self) -> list["Template"]:
        """List of this template and the templates of all nested stacks, without those excluded by a false condition."""
        nested = (nested for name, nested in self._nested.items() if self._is_made(name))
        return [self, *(each for template in nested for each in template.made)]

    def resources(self, kind: str) -> list[str]:
        """Return the logical ids of all resources of a type, without resources excluded by a false condition."""
        own = [name for name, resource in self._resources.items() if resource["Type"] == kind and self._is_made(name)]
        nested = (nested.resources(kind) for name, nested in self._nested.items() if self._is_made(name))
        return own + [name for names in nested for name in names]

    def owner(self, logical_id: str) -> "Template":
        """Return the template whose own file contains the resource: this template or the template of a nested stack."""
        if logical_id not in self._owners:
            raise TemplateError(f"{self.path} has no resource {logical_id!r}")
        return self._owners[logical_id]

    def properties(self, logical_id: str) -> dict[str, Any]:
        """Return the unresolved properties of a resource. A function inherits properties from Globals."""
        owner = self.owner(logical_id)
        if owner is not self:
            return owner.properties(logical_id)
        resource = self._resources[logical_id]
        properties: dict[str, Any] = resource.get("Properties") or {}
        if resource["Type"] == FUNCTION:
            return _merged((self.document.get("Globals") or {}).get("Function") or {}, properties)
        return properties

    def resolved(self, logical_id: str, *names: str) -> dict[str, Any]:
        """Return these properties of a resource, resolved. Without names, return all its properties."""
        owner = self.owner(logical_id)
        if owner is not self:
            return owner.resolved(logical_id, *names)
        properties = self.properties(logical_id)
        wanted = {name: properties[name] for name in names or properties if name in properties}
        resolved: dict[str, Any] = self.resolve(wanted, logical_id)
        return resolved

    def environment(self, function: str) -> dict[str, str]:
        """Return the resolved environment variables of a function as Lambda sets them.

        A variable that a project fills with a resource of an unknown type is left out: nothing here can provide it.
        """
        owner, values = self.owner(function), {}
        for name, value in (self.properties(function).get("Environment") or {}).get("Variables", {}).items():
            try:
                resolved = owner.resolve(value, f"{function}.Environment.Variables.{name}")
            except UnresolvableError:
                if owner is self:
                    raise
            else:
                values[name] = resolved
        return {name: _text(value) for name, value in values.items() if value is not _NOTHING}

    def events(self, function: str, *kinds: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield the name, type and resolved properties of each event of the function with one of these types."""
        owner = self.owner(function)
        for name, event in (owner.properties(function).get("Events") or {}).items():
            if event["Type"] in kinds:
                yield name, event["Type"], owner.resolve(event.get("Properties") or {}, f"{function}.Events.{name}")

    # --- References ---

    def resolve(self, value: Any, where: str) -> Any:
        """Return the value with all intrinsic functions resolved. Error messages begin with the location `where`."""
        if isinstance(value, list):
            items = [self.resolve(item, f"{where}[{n}]") for n, item in enumerate(value)]
            return [item for item in items if item is not _NOTHING]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((name, argument),) = value.items()
            if name in _INTRINSICS:
                return _INTRINSICS[name](self, argument, where)
            if name.startswith("Fn::"):
                raise TemplateError(f"{where}: {name} is not supported")
        members = {name: self.resolve(member, f"{where}.{name}") for name, member in value.items()}
        return {name: member for name, member in members.items() if member is not _NOTHING}

    def attribute(self, logical_id: str, name: str | None, where: str) -> str:
        """Return the value of GetAtt for an attribute of a resource or, if `name` is None, the value of Ref."""
        owner = self.owner(logical_id)
        if owner is not self:
            return owner.attribute(logical_id, name, where)
        kind = self._resources[logical_id]["Type"]
        attributes = ATTRIBUTES.get(kind, {})
        if name not in attributes:
            asked = f"!GetAtt {logical_id}.{name}" if name else f"!Ref {logical_id}"
            raise UnresolvableError(f"{where}: {asked} is not supported ({kind})")
        if not self._is_made(logical_id):
            raise TemplateError(f"{where}: {logical_id} does not exist: its condition is false")
        return attributes[name](self.place, self._physical_name(logical_id, kind))

    def output(self, name: str, where: str) -> Any:
        """Return the resolved value of an output of this template. Raises TemplateError if there is no such output."""
        outputs = self.document.get("Outputs") or {}
        if name not in outputs:
            raise TemplateError(f"{where}: {self.path} has no output {name}")
        return self.resolve(outputs[name]["Value"], f"{self.path.name}: Outputs.{name}")

    # --- Implementation ---

    def _nested_files(self) -> dict[str, Path]:
        """Return the local template files of the nested stacks and applications, by logical id."""
        urls = {
            name: (resource.get("Properties") or {}).get(_LOCATIONS[resource["Type"]])
            for name, resource in self._resources.items()
            if resource["Type"] in _LOCATIONS
        }
        return {name: self.path.parent / url for name, url in urls.items() if isinstance(url, str) and "://" not in url}

    def _read_nested(self, name: str) -> "Template":
        given = (self._resources[name].get("Properties") or {}).get("Parameters") or {}
        parameters = {each: _ParentValue(self, value, f"{name}.Parameters.{each}") for each, value in given.items()}
        # Name the nested stack without the random suffix that CloudFormation adds on AWS.
        place = replace(self.place, stack_name=f"{self.place.stack_name}-{name}")
        return Template(self._nested_files()[name], place, parameters)

    def _resource_owners(self) -> dict[str, "Template"]:
        owners: dict[str, Template] = dict.fromkeys(self._resources, self)
        for nested in self._nested.values():
            if doubled := sorted(owners.keys() & nested._owners.keys()):
                raise TemplateError(
                    f"rename {', '.join(doubled)} in {self.path}: {nested.path} has resources of that name"
                )
            owners |= nested._owners
        return owners

    @property
    def _resources(self) -> dict[str, Any]:
        resources: dict[str, Any] = self.document["Resources"]
        return resources

    def _is_made(self, logical_id: str) -> bool:
        condition = self._resources[logical_id].get("Condition")
        return condition is None or self._holds(condition, logical_id)

    def _holds(self, condition: str, where: str) -> bool:
        conditions = self.document.get("Conditions") or {}
        if condition not in conditions:
            raise TemplateError(f"{where}: there is no condition {condition!r}")
        return bool(self.resolve(conditions[condition], f"Conditions.{condition}"))

    def _physical_name(self, logical_id: str, kind: str) -> str:
        given = self.properties(logical_id).get(NAME_PROPERTY.get(kind, ""))
        if given is not None:
            return str(self.resolve(given, f"{logical_id}.{NAME_PROPERTY[kind]}"))
        name = f"{self.place.stack_name}-{logical_id}"
        # Use lower case for a bucket, as S3 requires, and add the account, because the name must be unique on AWS.
        return f"{name}-{self.place.account}".lower() if kind == BUCKET else name

    def _parameter_values(self, overrides: Mapping[str, Any]) -> dict[str, Any]:
        declared = self.document.get("Parameters") or {}
        unknown = sorted(set(overrides) - set(declared))
        if unknown:
            raise TemplateError(f"{self.path} has no parameter {', '.join(unknown)}")
        return {name: overrides.get(name, parameter.get("Default", _NOTHING)) for name, parameter in declared.items()}

    def _parameter(self, name: str, where: str) -> Any:
        value, declared = self._parameters[name], self.document["Parameters"][name]
        if isinstance(value, _ParentValue):
            value = value.template.resolve(value.value, value.where)
            # As in CloudFormation, AWS::NoValue selects the default.
            value = declared.get("Default", _NOTHING) if value is _NOTHING else value
        if value is _NOTHING:
            raise TemplateError(f"{where}: the parameter {name} has no default and no value")
        is_list = declared["Type"] == "CommaDelimitedList"
        return _text(value).split(",") if is_list else value

    def _ref(self, name: Any, where: str) -> Any:
        pseudo = {
            "AWS::AccountId": self.place.account,
            "AWS::Region": self.place.region,
            "AWS::StackName": self.place.stack_name,
            "AWS::StackId": (
                f"arn:aws:cloudformation:{self.place.region}:{self.place.account}:stack/{self.place.stack_name}/{_UUID}"
            ),
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::NoValue": _NOTHING,
        }
        if name in pseudo:
            return pseudo[name]
        if name in self._parameters:
            return self._parameter(name, where)
        if name in self._resources:
            return self.attribute(name, None, where)
        if str(name).partition(".")[0] in self._resources:
            raise UnresolvableError(f"{where}: !Ref {name} is a resource that SAM generates")
        raise TemplateError(f"{where}: !Ref {name} is neither a parameter nor a resource")

    def _get_att(self, argument: Any, where: str) -> str:
        logical_id, name = argument.split(".", 1) if isinstance(argument, str) else argument
        if logical_id not in self._resources:
            raise TemplateError(f"{where}: !GetAtt {logical_id}.{name}: there is no such resource")
        if logical_id in self._nested and name.startswith("Outputs."):
            if not self._is_made(logical_id):
                raise TemplateError(f"{where}: {logical_id} does not exist: its condition is false")
            value: str = self._nested[logical_id].output(name.removeprefix("Outputs."), where)
            return value
        return self.attribute(logical_id, name, where)

    def _sub(self, argument: Any, where: str) -> str:
        text, extra = (argument, {}) if isinstance(argument, str) else argument
        own = {name: _text(self.resolve(value, where)) for name, value in extra.items()}

        def replacement(match: re.Match[str]) -> str:
            name = match[1].strip()
            if name.startswith("!"):
                return f"${{{name[1:]}}}"
            if name in own:
                return own[name]
            is_attribute = "." in name
            return _text(self._get_att(name, where) if is_attribute else self._ref(name, where))

        return _REFERENCE.sub(replacement, text)

    def _if(self, argument: Any, where: str) -> Any:
        condition, then, otherwise = argument
        return self.resolve(then if self._holds(condition, where) else otherwise, where)

    def _find_in_map(self, argument: Any, where: str) -> Any:
        table, *keys = self.resolve(argument, where)
        found = (self.document.get("Mappings") or {}).get(table, {})
        for key in map(_text, keys):
            # Compare keys as text, because a parameter may be a number.
            found = {_text(name): value for name, value in found.items()}
            if key not in found:
                raise TemplateError(f"{where}: the mapping {table} has no {'.'.join(map(_text, keys))}")
            found = found[key]
        return found

    def _join(self, argument: Any, where: str) -> str:
        separator, items = self.resolve(argument, where)
        return str(separator).join(_text(item) for item in items)

    def _select(self, argument: Any, where: str) -> Any:
        index, items = self.resolve(argument, where)
        return items[int(index)]

    def _split(self, argument: Any, where: str) -> list[str]:
        separator, text = self.resolve(argument, where)
        return str(text).split(str(separator))

    def _equals(self, argument: Any, where: str) -> bool:
        left, right = self.resolve(argument, where)
        return _text(left) == _text(right)

    def _not(self, argument: Any, where: str) -> bool:
        return not self.resolve(argument, where)[0]

    def _and(self, argument: Any, where: str) -> bool:
        return all(self.resolve(argument, where))

    def _or(self, argument: Any, where: str) -> bool:
        return any(self.resolve(argument, where))

    def _condition(self, argument: Any, where: str) -> Any:
        if isinstance(argument, str):
            return self._holds(argument, where)
        # Keep this `Condition`: it is an ordinary key, for example of an IAM statement, not the intrinsic function.
        return {"Condition": self.resolve(argument, where)}


def project_template(folder: Path, place: Place, parameters: Mapping[str, Any] | None = None) -> Template:
    """Return the whole template of a project: its own template.yaml, else the one shipped with aion-lambda.

    Raises TemplateError.
    """
    return Template(template_file(folder), place, parameters)


def template_file(folder: Path) -> Path:
    """Return the path of the project's template.yaml or, if it is missing, of the template shipped with aion-lambda."""
    own = folder / "template.yaml"
    # Ignore a template.yaml with neither the API function nor the stacks of aion, because it belongs to another program.
    is_own = own.is_file() and "ApiFunction" in own.read_text(encoding="utf-8", errors="replace")
    return own if is_own or stacks.are_used(folder) else shipped() / "template.yaml"


_INTRINSICS: dict[str, Callable[[Template, Any, str], Any]] = {
    "Ref": Template._ref,
    "Condition": Template._condition,
    "Fn::GetAtt": Template._get_att,
    "Fn::Sub": Template._sub,
    "Fn::If": Template._if,
    "Fn::FindInMap": Template._find_in_map,
    "Fn::Join": Template._join,
    "Fn::Select": Template._select,
    "Fn::Split": Template._split,
    "Fn::Equals": Template._equals,
    "Fn::Not": Template._not,
    "Fn::And": Template._and,
    "Fn::Or": Template._or,
}


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Merge a function's properties (`above`) into the properties of Globals (`below`).

    Maps are merged and lists concatenated. Any other value of the function replaces the value of Globals.
    """
    merged = {**below, **above}
    for name in below.keys() & above.keys():
        if isinstance(below[name], dict) and isinstance(above[name], dict):
            merged[name] = _merged(below[name], above[name])
        elif isinstance(below[name], list) and isinstance(above[name], list):
            merged[name] = below[name] + above[name]
    return merged


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
