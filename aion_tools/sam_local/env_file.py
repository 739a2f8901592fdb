"""Files for SAM's option --env-vars, readable by this user only: they have the keys of models."""

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from aion_core.loading.aion_yaml.reading import AION_YAML
from aion_tools.dev.data_folder import FOLDER, make_ignored
from aion_tools.sam_local.variables import plain
from aion_tools.template.names import BUILD_PLACE
from aion_tools.template.reader import project_template

PLAIN = f"{FOLDER}/sam-env.json"
"""Path in a project of the file for `sam local` alone, which samconfig.toml names."""
EVERY_FUNCTION = "Parameters"
"""Key of the variables for all functions, also those of nested stacks."""
_SAM = ".aws-sam"


def write_plain(folder: Path, artifacts: Path) -> Path:
    """Write the file PLAIN of the project that is built in `folder`, and return its path.

    `artifacts` is the folder for the function's package. Raises ConfigurationError for an unreadable .env, and OSError.
    """
    project = project_of(folder, artifacts)
    make_ignored(project / FOLDER)
    file = project / PLAIN
    write_private(file, {EVERY_FUNCTION: plain(config_of(project))})
    return file


def project_of(folder: Path, artifacts: Path) -> Path:
    """Return the folder of the project that is built in `folder`.

    Without `build_in_source`, SAM copies the project into a temporary folder and runs make there, but for artifacts in
    the project's own `.aws-sam`.
    """
    artifacts = artifacts.absolute()
    above = (parent.parent for parent in artifacts.parents if parent.name == _SAM)
    return folder if artifacts.is_relative_to(folder) else next(above, folder)


def config_of(project: Path) -> Path:
    """Return the path of the project's aion.yaml, which the template names. Raises TemplateError."""
    functions = project_template(project, BUILD_PLACE)
    return project / functions.environment("ApiFunction").get("AION_CONFIG", AION_YAML)


def write_private(file: Path, variables: Mapping[str, Mapping[str, str]]) -> None:
    """Write the variables by function name. Readers see the old file or the whole new one, also if several write."""
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f"{file.name}.")  # mkstemp makes it mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as new:
            json.dump(variables, new, indent=2)
        Path(name).replace(file)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
