"""Stacks in a project's `.aion/stacks`: the package's template and nested stacks, or the project's own ejected ones."""

from pathlib import Path

from aion_core import __version__
from aion_core.errors import AionError
from aion_tools.shipped import shipped

FOLDER = ".aion/stacks"
"""Folder of the stacks in a project. Git ignores it, and `aion stacks` writes it."""
EJECTED = "stacks"
"""Folder of the project's own stacks, committed. A stack in it replaces the package's stack of the same name."""
STACKS = {
    "template": "template.yaml",
    "state": "infra/state.yaml",
    "roles": "infra/roles.yaml",
    "operations": "infra/operations.yaml",
    "dashboard": "infra/dashboard.yaml",
    "entrypoints": "infra/entrypoints.yaml",
}
"""Path of each stack in the folder, by the name for `aion eject`."""
PURPOSES = {
    "template": "the functions, the REST API, and all parameters",
    "state": "table, bucket, key and queues",
    "roles": "the functions' roles and log groups",
    "operations": "alarms",
    "dashboard": "the dashboard in CloudWatch",
    "entrypoints": "Function URL and domain",
}
"""Content of each stack, by name."""
SCHEMA = "infra/aion-yaml.schema.json"
"""Path in the folder of the JSON Schema of aion.yaml, which editors read."""
_TEMPLATE = STACKS["template"]
_VERSION = "version"
_IGNORE = ".gitignore"


class StacksError(AionError):
    """Stacks that cannot be written, or that do not fit the installed aion-lambda."""


def are_used(folder: Path) -> bool:
    """Return True if the project's template.yaml nests the stacks of `.aion/stacks`."""
    template = folder / "template.yaml"
    return template.is_file() and f"{FOLDER}/" in template.read_text(encoding="utf-8", errors="replace")


def contents(folder: Path) -> dict[str, str]:
    """Return the text of each file of the project's `.aion/stacks`, by its path in that folder. Raises StacksError."""
    paths = [*STACKS.values(), SCHEMA]
    texts = {path: _text(source(folder / FOLDER / path)) for path in paths}
    # Import YAML only here, because the list of commands needs this module without it.
    import yaml

    from aion_tools.template import callback_form, image_form
    from aion_tools.template.file import TemplateError

    try:
        if names := callback_form.remotes(folder):
            texts[_TEMPLATE] = callback_form.callback_form(texts[_TEMPLATE], names)
        if image_form.is_wanted(folder):
            texts[_TEMPLATE] = image_form.image_form(texts[_TEMPLATE], folder)
    except TemplateError as error:
        raise StacksError(f"{source(folder / FOLDER / _TEMPLATE)}: {error}.") from error
    except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise StacksError(f"{source(folder / FOLDER / _TEMPLATE)} is not a template: {error!r}.") from error
    return {**texts, _VERSION: f"{__version__}\n", _IGNORE: "*\n"}


def write(folder: Path) -> None:
    """Write the project's `.aion/stacks`. Raises StacksError if a file cannot be read or written."""
    try:
        for path, text in contents(folder).items():
            file = folder / FOLDER / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StacksError(f"Cannot write {FOLDER}: {error.strerror} ({error.filename}).") from error


def check(folder: Path) -> None:
    """Raise StacksError if the project's `.aion/stacks` differs from what `aion stacks` would write."""
    from aion_tools.template import image_form

    wanted = contents(folder)
    found = {path: _found(folder / FOLDER / path) for path in wanted}
    if all(image_form.without_tag(found[path]) == image_form.without_tag(wanted[path]) for path in wanted):
        return
    version = found[_VERSION].strip()
    is_image = image_form.is_written(wanted[_TEMPLATE])
    installed = f", and aion-lambda {__version__} is installed"
    if not version:
        reason = f"{FOLDER} has no stacks{installed}"
    elif version != __version__:
        reason = f"The stacks in {FOLDER} are from aion-lambda {version}{installed}"
    elif is_image != image_form.is_written(found[_TEMPLATE]):
        declared, written = ("has", "zips") if is_image else ("does not have", "images")
        reason = f"aion.yaml {declared} `image: true`, but the stacks in {FOLDER} are for {written}"
    else:
        reason = f"The stacks in {FOLDER} differ from those of aion-lambda {version} and of {EJECTED}/"
    raise StacksError(
        f"{reason}. Run `{renewing(folder)}`, then `sam build` again: SAM reads the stacks before it builds the functions."
    )


def renewing(folder: Path) -> str:
    """Return the command that writes all that `sam build` reads in the project's `.aion`."""
    from aion_tools.template import image_form

    return "aion build" if image_form.is_wanted(folder) else "aion stacks"


def ejected(folder: Path) -> list[Path]:
    """Return the files of the project's ejected stacks."""
    files = (folder / EJECTED / f"{name}.yaml" for name in STACKS)
    return [file for file in files if file.is_file()]


def eject(folder: Path, name: str) -> Path:
    """Copy a stack of the package into the project's `stacks/`, and return the new file. Raises StacksError."""
    if name not in STACKS:
        raise StacksError(f"There is no stack {name!r}. The stacks are {', '.join(STACKS)}.")
    file = folder / EJECTED / f"{name}.yaml"
    if file.exists():
        raise StacksError(f"{EJECTED}/{file.name} exists already. Delete it to use the package's stack again.")
    try:
        file.parent.mkdir(exist_ok=True)
        file.write_text(
            f"# From aion-lambda {__version__} (`aion eject {name}`). After an upgrade, compare it with the new version's.\n"
            + _text(shipped() / STACKS[name]),
            encoding="utf-8",
        )
    except OSError as error:
        raise StacksError(f"Cannot write {file}: {error.strerror}.") from error
    return file


def source(path: Path) -> Path:
    """Return the file with the content of a file: for one in `.aion/stacks` the package's file or the ejected one.

    So a project's template can be read before `.aion/stacks` is written, and is never read from an old one.
    """
    stacks = next((parent for parent in path.parents if parent.parts[-2:] == Path(FOLDER).parts), None)
    if stacks is None:
        return path
    name = path.relative_to(stacks).as_posix()
    ejected = stacks.parents[1] / EJECTED / path.name
    return ejected if name in STACKS.values() and ejected.is_file() else shipped() / name


def _text(file: Path) -> str:
    # The functions' code is the project's folder, seen from the folder of the stacks.
    return file.read_text(encoding="utf-8").replace("\n    CodeUri: .\n", "\n    CodeUri: ../..\n")


def _found(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""
