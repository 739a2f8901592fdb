"""Parameters of a project's template.yaml, and those that it passes to its nested stack `Aion`."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from aion_core.errors import ConfigurationError
from aion_core.loading.suggestions import did_you_mean
from aion_tools.deploy.cloudformation import APPLICATION
from aion_tools.template.constraints import refusals
from aion_tools.template.file import TemplateError, load
from aion_tools.template.reader import Place, Template

ARCHITECTURE = "Architecture"
"""Parameter whose default chooses the processor: the build reads it too, so no deployment may override it."""
KNOWN_LATER = "(known during the deployment)"
"""Stands for the value of a parameter that names a resource of the project: only AWS knows it."""


@dataclass(frozen=True)
class TemplateParameters:
    """Parameters that a project's template.yaml declares, and those of its nested stack `Aion`."""

    template: Path
    defaults: Mapping[str, str]
    """Defaults of the parameters that template.yaml declares. samconfig.toml and `--parameter` can set these."""
    passed: Mapping[str, Any]
    """Values in template.yaml for parameters of `Aion`, with their intrinsic functions."""
    of_application: frozenset[str]
    """Names of the parameters of `Aion`. Empty for a template.yaml with the functions, which has no such stack."""

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read template.yaml and the template of `Aion`. Raises ConfigurationError if one is unreadable."""
        template = folder / "template.yaml"
        try:
            document = load(template)
            nested = document["Resources"].get(APPLICATION, {}).get("Properties") or {}
            location = nested.get("Location") or nested.get("TemplateURL")
            declared = (load(folder / location).get("Parameters") or {}) if location else {}
        except TemplateError as error:
            raise ConfigurationError(f"{error}.") from error
        defaults = {name: str(each.get("Default", "")) for name, each in (document.get("Parameters") or {}).items()}
        return cls(template, defaults, nested.get("Parameters") or {}, frozenset(declared))

    def check(self, given: Mapping[str, str]) -> None:
        """Raise ConfigurationError for an override that template.yaml does not declare: SAM would ignore it."""
        if ARCHITECTURE in given.keys() & self.defaults.keys():
            raise ConfigurationError(
                f"{ARCHITECTURE} has one source, its Default in template.yaml, because the build reads it too. Set it there, "
                "and remove it from samconfig.toml or the command line."
            )
        undeclared = {name: value for name, value in given.items() if name not in self.defaults}
        if fixed := sorted(undeclared.keys() & self.passed.keys()):
            raise ConfigurationError(
                f"template.yaml sets {', '.join(fixed)} under {APPLICATION}, Properties, Parameters, and declares no parameter of "
                "this name. Change the value there, and remove it from samconfig.toml or the command line."
            )
        if lines := {name: undeclared[name] for name in sorted(undeclared.keys() & self.of_application)}:
            text = yaml.safe_dump(lines, width=10_000).strip().replace("\n", "\n    ")
            raise ConfigurationError(
                f"template.yaml does not declare the parameter{'s' * (len(lines) > 1)} {', '.join(lines)}. Set in template.yaml, "
                f"under {APPLICATION}, Properties, Parameters:\n    {text}\nOr declare a parameter, and pass it there by !Ref."
            )
        for name in undeclared:
            hint = did_you_mean(name, {*self.defaults, *self.of_application})
            raise ConfigurationError(f"template.yaml has no parameter {name}.{hint and f' {hint}'}")

    def effective(self, given: Mapping[str, str], place: Place) -> dict[str, str]:
        """Return the parameters of the stack with the functions that template.yaml sets, for these overrides.

        KNOWN_LATER is the value of a parameter that only AWS knows.
        """
        if not self.of_application:
            return {**self.defaults, **self._own(given)}
        template, found = self._resolved(given, place), dict[str, str]()
        for name, value in self.passed.items():
            try:
                found[name] = str(template.resolve(value, f"{APPLICATION}.{name}"))
            except TemplateError:
                found[name] = KNOWN_LATER
        return found

    def refusals(self, given: Mapping[str, str], place: Place) -> list[str]:
        """Return why CloudFormation would refuse these overrides, at once or later, in a nested stack."""
        return refusals(self._resolved(given, place))

    def _own(self, given: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in given.items() if name in self.defaults}

    def _resolved(self, given: Mapping[str, str], place: Place) -> Template:
        try:
            return Template(self.template, place, self._own(given))
        except TemplateError as error:
            raise ConfigurationError(f"{error}.") from error
