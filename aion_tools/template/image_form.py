"""Image form of the template: the functions with agents as container images, for `image: true` in aion.yaml."""

import copy
import hashlib
import re
from pathlib import Path
from typing import Any

import yaml

from aion_tools.template.file import TemplateError, aion_section, parsed
from aion_tools.template.names import FUNCTION

FOLDER = ".aion/image"
"""Folder of the images' folders in a project, one for each function with agents. `aion build` writes it."""
WRAPPER = "AWS_LAMBDA_EXEC_WRAPPER"
"""Variable with the program that starts our runtime loop in a zip. In an image it is the ENTRYPOINT."""
_TAG = re.compile(r"DockerTag: \S+")
_HEADER = "# The image form of aion-lambda's template, because aion.yaml has `image: true`. Do not edit it.\n"
_SNAP_START = {
    "Assert": {"Fn::Equals": [{"Ref": "SnapStart"}, "None"]},
    "AssertDescription": "SnapStart is for zips, and aion.yaml has `image: true`; remove one of them.",
}


def is_wanted(folder: Path) -> bool:
    """Return True if the project's aion.yaml has `image: true`."""
    return aion_section(folder).get("image") is True


def is_written(template: str) -> bool:
    """Return True if the text is a template in its image form."""
    return template.startswith(_HEADER)


def without_tag(template: str) -> str:
    """Return the template without the images' tags, which differ in a copy of the project's folder."""
    return _TAG.sub("", template)


def image_form(template: str, folder: Path) -> str:
    """Return a template's image form, for the project in this folder. Raises TemplateError, or yaml.YAMLError.

    PackageType can't depend on a parameter, and an image has neither runtime nor handler. Functions without agents stay
    zips. They come first, so that their makefile checks the images' folders before docker builds them.
    """
    document = copy.deepcopy(parsed(template))
    function = (document.get("Globals") or {}).get("Function") or {}
    of_zips = {name: function.pop(name) for name in ("Runtime", "CodeUri") if name in function}
    resources: dict[str, Any] = document["Resources"]
    images = {name: each for name, each in resources.items() if each["Type"] == FUNCTION and _has_agents(each)}
    for name, each in resources.items():
        if name in images:
            if "Layers" in function or "Layers" in each["Properties"]:
                raise TemplateError(f"{name} is an image and cannot have Layers. Put their files into your project")
            _make_image(name, each, folder)
        elif each["Type"] == FUNCTION:
            each["Properties"] = {**of_zips, **each["Properties"]}
    document["Resources"] = {name: each for name, each in resources.items() if name not in images} | images
    if "SnapStart" in (document.get("Parameters") or {}):
        document["Rules"] = {**(document.get("Rules") or {}), "Image": {"Assertions": [_SNAP_START]}}
    return _HEADER + yaml.safe_dump(document, sort_keys=False, width=130, allow_unicode=True)


def _has_agents(function: dict[str, Any]) -> bool:
    variables = ((function.get("Properties") or {}).get("Environment") or {}).get("Variables") or {}
    return "AION_CONFIG" in variables


def _make_image(name: str, function: dict[str, Any], folder: Path) -> None:
    properties = function["Properties"]
    for each in ("Runtime", "Handler", "CodeUri", "SnapStart"):
        properties.pop(each, None)
    properties["Environment"]["Variables"].pop(WRAPPER, None)
    properties["PackageType"] = "Image"
    # SAM tags an image with the function's name, which all projects on this machine have in common.
    tag = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:12]
    function["Metadata"] = {"DockerContext": f"../image/{name}", "Dockerfile": "Dockerfile", "DockerTag": tag}
