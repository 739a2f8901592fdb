"""Callback form of the template: a path without an authorizer, for `callback: on` in aion.yaml.

The REST API may require AWS signatures, which no remote agent's notification has.
"""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from aion_core.delegation.callback_address import PATH
from aion_tools.template.file import TemplateError, aion_section, parsed
from aion_tools.template.names import FUNCTION

_EVERY_PATH = "/{proxy+}"
_OPEN = {"Authorizer": "NONE"}
_HEADER = "# aion-lambda's template with a path for callbacks, because aion.yaml has `callback: on`. Do not edit it.\n"


def remotes(folder: Path) -> list[str]:
    """Return the remote agents with `callback: on` in the project's aion.yaml."""
    declared = aion_section(folder).get("remotes")
    found = declared.items() if isinstance(declared, dict) else ()
    return [str(name) for name, remote in found if isinstance(remote, dict) and remote.get("callback") in (True, "on")]


def callback_form(template: str, names: list[str]) -> str:
    """Return a template with the path for the callbacks of these remote agents. Raises TemplateError, or yaml.YAMLError.

    CloudFormation can't make an event of a function depend on a parameter.
    """
    document = copy.deepcopy(parsed(template))
    events = next(_with_every_path(document), None)
    if events is None:
        raise TemplateError(_no_path(names))
    if not any(_is_callback(event) for event in events.values()):
        every = next(event for event in events.values() if _path_of(event) == _EVERY_PATH)
        properties = {**every["Properties"], "Path": PATH, "Method": "POST", "Auth": _OPEN}
        events["Callbacks"] = {"Type": "Api", "Properties": properties}
    return _HEADER + yaml.safe_dump(document, sort_keys=False, width=130, allow_unicode=True)


def check(document: dict[str, Any], names: list[str]) -> None:
    """Raise TemplateError if a project's own template has no path for the callbacks of these remote agents."""
    if not any(_is_callback(event) for events in _events(document) for event in events.values()):
        raise TemplateError(
            f"{_no_path(names)} An event of ApiFunction may be: {{Type: Api, Properties: {{RestApiId: !Ref Api, "
            f"Path: {PATH}, Method: POST, Auth: {{Authorizer: NONE}}, ResponseTransferMode: RESPONSE_STREAM}}}}"
        )


def _no_path(names: list[str]) -> str:
    return (
        f"aion.remotes.{', '.join(names)} has `callback: on`, but the template has no path of a REST API that takes callbacks "
        "without AWS signatures; a Function URL with AWS_IAM refuses them. Restore the REST API, or remove `callback`."
    )


def _events(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of each function."""
    for resource in document["Resources"].values():
        if resource["Type"] == FUNCTION and isinstance(
            events := (resource.get("Properties") or {}).get("Events"), dict
        ):
            yield events


def _with_every_path(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of the function that gets the requests to all paths."""
    for events in _events(document):
        if any(_path_of(event) == _EVERY_PATH for event in events.values()):
            yield events


def _path_of(event: dict[str, Any]) -> str:
    return str(event["Properties"].get("Path", "")) if event.get("Type") == "Api" else ""


def _is_callback(event: dict[str, Any]) -> bool:
    return _path_of(event) == PATH and (event["Properties"].get("Auth") or {}).get("Authorizer") == "NONE"
