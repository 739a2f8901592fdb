"""Resources of template.yaml and its nested stacks, with parameters and references replaced by values."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from aion_tools.template.file import load
from aion_tools.template.reader import FUNCTION, Place, Template, UnresolvableError

PLACE = Place(account="123456789012", region="us-east-1", endpoint="https://sqs", stack_name="stack")
ROOT = Path(__file__).parents[2]
"""Folder of the code that the template deploys."""


class ResolvedDeployment:
    """Deployment of a template with these parameters, in a stack called "stack"."""

    def __init__(self, path: Path, parameters: Mapping[str, str]) -> None:
        declared = load(path)["Parameters"]
        numbers = {name: int(value) for name, value in parameters.items() if declared[name]["Type"] == "Number"}
        self.template = Template(path, PLACE, {**parameters, **numbers})

    @cached_property
    def resources(self) -> dict[str, dict[str, Any]]:
        """Resolved properties, policies and condition of each created resource, by resource type and logical id."""
        written = [each.document["Resources"] for each in self.template.all]
        kinds = {resource["Type"] for resources in written for resource in resources.values()}
        return {kind: {name: self._resolved(name) for name in self.template.resources(kind)} for kind in sorted(kinds)}

    @property
    def functions(self) -> dict[str, dict[str, Any]]:
        """Resolved properties of the Lambda functions, by logical id."""
        return self.resources[FUNCTION]

    def environment(self, function: str) -> dict[str, str]:
        """Return the environment variables of a Lambda function, by name."""
        return self.template.environment(function)

    def given(self, parameter: str) -> str:
        """Return the value of a template parameter, or its default."""
        return str(self.template.resolve({"Ref": parameter}, parameter))

    def _resolved(self, name: str) -> dict[str, Any]:
        owner = self.template.owner(name)
        resource = owner.document["Resources"][name]
        attributes = {key: value for key, value in resource.items() if key not in ("Type", "Properties", "Metadata")}
        properties: dict[str, Any] = resolved(owner, self.template.properties(name))
        return {**attributes, **properties}


def resolved(template: Template, value: Any) -> Any:
    """Replace the references in a template value. References to a resource without a known name stay unchanged."""
    try:
        return template.resolve(value, template.path.name)
    except UnresolvableError:
        if isinstance(value, dict):
            return {key: each for key, member in value.items() for each in resolved(template, [member])}
        if isinstance(value, list) and len(value) > 1:
            return [each for member in value for each in resolved(template, [member])]
        return [resolved(template, value[0])] if isinstance(value, list) else value
