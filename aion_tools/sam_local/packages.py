"""Packages of the functions for the container engine's processor, by `sam build` in a folder of their own."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aion_core.errors import ConfigurationError
from aion_tools.deploy.sam import Sam
from aion_tools.package.functions import FUNCTION_EXTRAS
from aion_tools.programs import OTHER_ARCHITECTURE
from aion_tools.sam_local.variables import EMULATOR
from aion_tools.template import image_form
from aion_tools.template.names import BUILD_PLACE
from aion_tools.template.reader import FUNCTION, Template, project_template

COMMAND = "aion sam-local"


@dataclass(frozen=True)
class Packages:
    """Built packages, and the template that names them."""

    template: Path
    folders: tuple[Path, ...]
    """Folder of each function, which its container mounts."""
    runtime: str
    """Lambda's name of the functions' runtime, such as python3.13."""


def build(sam: Sam, folder: Path, architecture: str) -> Packages:
    """Build the project's functions in the folder, for a processor that the project's template need not name.

    Raises ConfigurationError for images, whose processor is the template's, and DeployError.
    """
    if image_form.is_wanted(sam.project):
        _check_images(sam.project, architecture)
    sam.build("--build-dir", str(folder), environ={OTHER_ARCHITECTURE: architecture})
    return prepare(folder / "template.yaml", architecture)


def _check_images(project: Path, architecture: str) -> None:
    [declared] = project_template(project, BUILD_PLACE).resolved("ApiFunction", "Architectures")["Architectures"]
    if declared != architecture:
        raise ConfigurationError(
            f"aion.yaml has `image: true`, and docker builds images for the Architecture in template.yaml, {declared}; this "
            f"machine's engine runs {architecture}. Use `aion dev`, or change the Architecture while you try the images."
        )


def prepare(template: Path, architecture: str) -> Packages:
    """Change the built templates, so that SAM runs aion's functions on this processor and with the emulated AWS."""
    built, folders, runtime = Template(template, BUILD_PLACE), [], ""
    for each in built.all:
        own = [name for name, resource in each.document["Resources"].items() if _is_of_aion(name, resource)]
        for name in own:
            properties = each.resolved(name, "CodeUri", "Runtime")
            if "CodeUri" in properties:
                folders.append(each.path.parent / properties["CodeUri"])
                runtime = properties["Runtime"]
        if own:
            each.path.write_text(json.dumps(_for_containers(each.document, own, architecture)), encoding="utf-8")
    return Packages(template, tuple(folders), runtime)


def _for_containers(document: dict[str, Any], functions: list[str], architecture: str) -> dict[str, Any]:
    """Return the template with this processor for its functions, and with the variables for an emulated AWS."""
    changed: dict[str, Any] = json.loads(json.dumps(document, default=str))
    shared = changed.get("Globals", {}).get("Function", {})
    # A function's list would be added to that of Globals.
    otherwise = shared.pop("Architectures", None)
    for name, resource in changed["Resources"].items():
        if resource["Type"] != FUNCTION:
            continue
        properties = resource["Properties"]
        if name in functions:
            properties["Architectures"] = [architecture]
            properties.setdefault("Environment", {}).setdefault("Variables", {}).update(EMULATOR)
        elif otherwise:
            properties.setdefault("Architectures", otherwise)
    return changed


def _is_of_aion(name: str, resource: dict[str, Any]) -> bool:
    return resource["Type"] == FUNCTION and name in FUNCTION_EXTRAS
