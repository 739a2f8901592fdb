"""A template as it is deployed: what CloudFormation gets of each of its files, and what its references stand for."""

import logging
import os
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from samtranslator.translator.transform import transform

from aion_core.template.file import parsed
from aion_core.template.reader import FUNCTION, STACK, Place, Template

REGION = "us-east-1"
STACK_NAME = "gated-stack"
# What `sam package` puts in the place of a local folder, and of a local template.
PACKAGED = "s3://packaged/function.zip"
PACKAGED_TEMPLATE = "https://packaged.s3.amazonaws.com/nested.template"


class _ManagedPolicies:
    """Stands in for IAM, which the transform asks for the names of managed policies."""

    def load(self) -> dict[str, str]:
        return {}

    def get_managed_policy(self, name: str) -> None:
        return None


@dataclass(frozen=True)
class Deployed:
    """One template with its nested stacks, deployed with some parameters."""

    template: Template
    parameters: Mapping[str, str]
    documents: Mapping[Path, dict[str, Any]]
    """Each file, as CloudFormation gets it: the outermost first, which SAM has transformed."""

    @classmethod
    def of(cls, path: Path, parameters: Mapping[str, str]) -> "Deployed":
        """Read it; raises TemplateError, or what SAM's transform raises, for what cannot be deployed at all."""
        template = Template(path, Place("123456789012", REGION, "https://sqs", STACK_NAME), parameters)
        nested = {each.path: each.document for each in template.all[1:]}
        return cls(
            template,
            parameters,
            {path: _transformed(path.read_text(encoding="utf-8"), tuple(parameters.items())), **nested},
        )

    def with_parameters(self, **parameters: str) -> Template:
        """Return the template with these parameters besides, as far as it has them."""
        known = {name: value for name, value in parameters.items() if name in self.template.document["Parameters"]}
        return Template(self.template.path, self.template.place, {**self.parameters, **known})

    @property
    def plain(self) -> dict[str, Any]:
        """The outermost file."""
        return self.documents[self.template.path]

    def resources(self, *kinds: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield logical id and resource, of all files, also those whose condition does not hold."""
        for document in self.documents.values():
            for name, resource in document["Resources"].items():
                if resource["Type"] in kinds:
                    yield name, resource


def transformed(path: Path, parameters: Mapping[str, str]) -> dict[str, Any]:
    """Return the CloudFormation template that SAM makes of this one's own file."""
    return deepcopy(_transformed(path.read_text(encoding="utf-8"), tuple(parameters.items())))


# Of a template that is broken in one nested file the others are as they were.
@lru_cache(maxsize=32)
def _transformed(text: str, parameters: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    document = deepcopy(parsed(text))
    functions = [
        resource.get("Properties") or {} for resource in document["Resources"].values() if resource["Type"] == FUNCTION
    ]
    for holder in (document.get("Globals", {}).get("Function", {}), *functions):
        if "CodeUri" in holder:
            holder["CodeUri"] = PACKAGED
    os.environ.setdefault("AWS_DEFAULT_REGION", REGION)
    # It complains about feature toggles that only exist at AWS.
    logging.getLogger("samtranslator").setLevel(logging.CRITICAL)
    plain: dict[str, Any] = transform(document, dict(parameters), _ManagedPolicies())
    return plain


def packaged(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with its nested stacks' templates where `sam package` puts them."""
    resources = {}
    for name, resource in document["Resources"].items():
        if resource["Type"] == STACK:
            resource = {**resource, "Properties": {**resource["Properties"], "TemplateURL": PACKAGED_TEMPLATE}}
        resources[name] = resource
    return {**document, "Resources": resources}


def listed(value: Any) -> list[Any]:
    """Return the value as a list, where a single one may stand for it."""
    return value if isinstance(value, list) else [value]


def uses(document: str, parameter: str) -> bool:
    """Tell whether a part of a template, as JSON, names the parameter."""
    return f'{{"Ref": "{parameter}"}}' in document or f"${{{parameter}}}" in document


def runs_agents(template: Template, function: str) -> bool:
    """Tell whether the function runs agents' code: it is told which."""
    return "AION_CONFIG" in template.environment(function)


def timeout(template: Template, function: str) -> int:
    """Return for how many seconds the function may run."""
    return int(template.resolved(function, "Timeout").get("Timeout", 3))
