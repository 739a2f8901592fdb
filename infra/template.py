"""Reads a SAM template as CloudFormation would: its tags, parameters, conditions and references."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FUNCTION = "AWS::Serverless::Function"
TABLE = "AWS::DynamoDB::Table"
QUEUE = "AWS::SQS::Queue"
BUCKET = "AWS::S3::Bucket"
KEY = "AWS::KMS::Key"

# What CloudFormation's short tags stand for, where it is not the tag's name behind "Fn::".
_BARE_TAGS = {"Ref", "Condition"}
_REFERENCE = re.compile(r"\$\{([^}]*)\}")
_NOTHING = object()


class TemplateError(Exception):
    """The template asks for something that cannot be worked out from it."""


@dataclass(frozen=True)
class Place:
    """Where the template's resources are made; their names follow from it."""

    account: str
    region: str
    endpoint: str
    stack_name: str


class Template:
    """One template, made at one place; `parameters` replace its defaults."""

    def __init__(self, path: Path, place: Place, parameters: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.place = place
        self._document = _load(path)
        self._parameters = self._parameter_values(parameters or {})

    # --- What there is ---

    def resources(self, kind: str) -> list[str]:
        """Return the logical ids of this kind of resource, without those whose condition does not hold."""
        return [name for name, resource in self._resources.items() if resource["Type"] == kind and self._is_made(name)]

    def properties(self, logical_id: str) -> dict[str, Any]:
        """Return a resource's properties as they are written, a function's with the globals beneath."""
        resource = self._resources.get(logical_id)
        if resource is None:
            raise TemplateError(f"{self.path} has no resource {logical_id!r}")
        properties: dict[str, Any] = resource.get("Properties") or {}
        if resource["Type"] == FUNCTION:
            return _merged((self._document.get("Globals") or {}).get("Function") or {}, properties)
        return properties

    def resolved(self, logical_id: str, *names: str) -> dict[str, Any]:
        """Return a resource's properties with every reference replaced: these, or all where none is named."""
        properties = self.properties(logical_id)
        wanted = {name: properties[name] for name in names or properties if name in properties}
        resolved: dict[str, Any] = self.resolve(wanted, logical_id)
        return resolved

    def environment(self, function: str) -> dict[str, str]:
        """Return a function's environment variables as Lambda would set them."""
        variables = self.resolved(function, "Environment").get("Environment", {}).get("Variables", {})
        return {name: _text(value) for name, value in variables.items()}

    def events(self, function: str, *kinds: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield name, type and properties of the function's events of these types."""
        for name, event in (self.properties(function).get("Events") or {}).items():
            if event["Type"] in kinds:
                yield name, event["Type"], self.resolve(event.get("Properties") or {}, f"{function}.Events.{name}")

    # --- References ---

    def resolve(self, value: Any, where: str) -> Any:
        """Return the value with every intrinsic function in it replaced; `where` tells the reader of an error."""
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
                raise TemplateError(f"{where}: {name} cannot be worked out here")
        members = {name: self.resolve(member, f"{where}.{name}") for name, member in value.items()}
        return {name: member for name, member in members.items() if member is not _NOTHING}

    def attribute(self, logical_id: str, name: str | None, where: str) -> str:
        """Return what Ref (no name) or GetAtt gives for a resource, as it is named at this place."""
        kind = self._resources[logical_id]["Type"]
        attributes = _ATTRIBUTES.get(kind, {})
        if name not in attributes:
            asked = f"!GetAtt {logical_id}.{name}" if name else f"!Ref {logical_id}"
            raise TemplateError(f"{where}: {asked} cannot be worked out here ({kind})")
        if not self._is_made(logical_id):
            raise TemplateError(f"{where}: {logical_id} is not made, its condition does not hold")
        return attributes[name](self.place, self._physical_name(logical_id, kind))

    # --- How ---

    @property
    def _resources(self) -> dict[str, Any]:
        resources: dict[str, Any] = self._document["Resources"]
        return resources

    def _is_made(self, logical_id: str) -> bool:
        condition = self._resources[logical_id].get("Condition")
        return condition is None or self._holds(condition, logical_id)

    def _holds(self, condition: str, where: str) -> bool:
        conditions = self._document.get("Conditions") or {}
        if condition not in conditions:
            raise TemplateError(f"{where}: no condition is named {condition!r}")
        return bool(self.resolve(conditions[condition], f"Conditions.{condition}"))

    def _physical_name(self, logical_id: str, kind: str) -> str:
        given = self.properties(logical_id).get(_NAME_PROPERTY.get(kind, ""))
        if given is not None:
            return str(self.resolve(given, f"{logical_id}.{_NAME_PROPERTY[kind]}"))
        name = f"{self.place.stack_name}-{logical_id}"
        # Bucket names are lower case and one namespace for all accounts.
        return f"{name}-{self.place.account}".lower() if kind == BUCKET else name

    def _parameter_values(self, overrides: Mapping[str, str]) -> dict[str, Any]:
        declared = self._document.get("Parameters") or {}
        unknown = sorted(set(overrides) - set(declared))
        if unknown:
            raise TemplateError(f"{self.path} has no parameter {', '.join(unknown)}")
        values: dict[str, Any] = {}
        for name, parameter in declared.items():
            value = overrides.get(name, parameter.get("Default", _NOTHING))
            values[name] = _text(value).split(",") if parameter["Type"] == "CommaDelimitedList" else value
        return values

    def _ref(self, name: Any, where: str) -> Any:
        pseudo = {
            "AWS::AccountId": self.place.account,
            "AWS::Region": self.place.region,
            "AWS::StackName": self.place.stack_name,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::NoValue": _NOTHING,
        }
        if name in pseudo:
            return pseudo[name]
        if name in self._parameters:
            if self._parameters[name] is _NOTHING:
                raise TemplateError(f"{where}: the parameter {name} has no default and was not given")
            return self._parameters[name]
        if name in self._resources:
            return self.attribute(name, None, where)
        raise TemplateError(f"{where}: !Ref {name} names neither a parameter nor a resource")

    def _get_att(self, argument: Any, where: str) -> str:
        logical_id, _, name = argument.partition(".") if isinstance(argument, str) else (argument[0], "", argument[1])
        if logical_id not in self._resources:
            raise TemplateError(f"{where}: !GetAtt {logical_id}.{name} names no resource")
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
        found = (self._document.get("Mappings") or {}).get(table, {})
        for key in map(_text, keys):
            # A parameter may be a number; what a mapping maps from is text.
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
        # An ordinary key: an IAM statement has a Condition too.
        return {"Condition": self.resolve(argument, where)}


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

_NAME_PROPERTY = {FUNCTION: "FunctionName", TABLE: "TableName", QUEUE: "QueueName", BUCKET: "BucketName"}

_ATTRIBUTES: dict[str, dict[str | None, Callable[[Place, str], str]]] = {
    FUNCTION: {
        None: lambda place, name: name,
        "Arn": lambda place, name: f"arn:aws:lambda:{place.region}:{place.account}:function:{name}",
    },
    TABLE: {
        None: lambda place, name: name,
        "Arn": lambda place, name: f"arn:aws:dynamodb:{place.region}:{place.account}:table/{name}",
    },
    QUEUE: {
        None: lambda place, name: f"{place.endpoint}/{place.account}/{name}",
        "QueueUrl": lambda place, name: f"{place.endpoint}/{place.account}/{name}",
        "QueueName": lambda place, name: name,
        "Arn": lambda place, name: f"arn:aws:sqs:{place.region}:{place.account}:{name}",
    },
    BUCKET: {
        None: lambda place, name: name,
        "Arn": lambda place, name: f"arn:aws:s3:::{name}",
    },
    # A key's own id is given when it is made: here it is known by an alias, as which KMS takes it too.
    KEY: {
        None: lambda place, name: f"alias/{name}",
        "Arn": lambda place, name: f"arn:aws:kms:{place.region}:{place.account}:alias/{name}",
    },
}


class _Loader(yaml.SafeLoader):
    """YAML with CloudFormation's short tags."""


def _tagged(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    match node:
        case yaml.ScalarNode():
            value = loader.construct_scalar(node)
        case yaml.SequenceNode():
            value = loader.construct_sequence(node, deep=True)
        case yaml.MappingNode():
            value = loader.construct_mapping(node, deep=True)
    return {suffix if suffix in _BARE_TAGS else f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _tagged)


def _load(path: Path) -> dict[str, Any]:
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - a SafeLoader with more tags
    except OSError as error:
        raise TemplateError(f"cannot read {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise TemplateError(f"{path} is not YAML: {error}") from error
    resources = document.get("Resources") if isinstance(document, dict) else None
    if not isinstance(resources, dict):
        raise TemplateError(f"{path} is not a template: it has no Resources")
    for name, resource in resources.items():
        if not isinstance(resource, dict) or not isinstance(resource.get("Type"), str):
            raise TemplateError(f"{path}: {name} has no Type")
    return dict(document)


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Lay a function's properties over the globals: maps merge, lists add up, anything else replaces."""
    merged = {**below, **above}
    for name in below.keys() & above.keys():
        if isinstance(below[name], dict) and isinstance(above[name], dict):
            merged[name] = _merged(below[name], above[name])
        elif isinstance(below[name], list) and isinstance(above[name], list):
            merged[name] = below[name] + above[name]
    return merged


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
