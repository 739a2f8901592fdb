"""Metadata of the project's own distribution, because its code may read its version with importlib.metadata."""

import importlib.metadata
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from aion_tools.package.declared import read_pyproject


def distribution_metadata(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the path in the package and the text of each metadata file of the project in this folder.

    A project without a name or a known version has no metadata. A dynamic version is read from the installed project.
    Raises BuildError for an invalid pyproject.toml.
    """
    declared = read_pyproject(folder).get("project", {})
    name = declared.get("name")
    version = (declared.get("version") or _installed_version(name)) if name else None
    if not version:
        return
    place = f"{re.sub(r'[-_.]+', '_', name).lower()}-{version}.dist-info"
    yield f"{place}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    if points := _entry_points(declared):
        yield f"{place}/entry_points.txt", points


def _installed_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _entry_points(declared: Mapping[str, Any]) -> str:
    groups: dict[str, Mapping[str, str]] = dict(declared.get("entry-points", {}))
    for group, key in (("console_scripts", "scripts"), ("gui_scripts", "gui-scripts")):
        if declared.get(key):
            groups[group] = declared[key]
    return "\n".join(
        "".join([f"[{group}]\n", *(f"{name} = {value}\n" for name, value in points.items())])
        for group, points in groups.items()
    )
