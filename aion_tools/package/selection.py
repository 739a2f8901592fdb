"""Selection of a project's files for a Lambda package, by .gitignore, .aionignore and built-in rules."""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from aion_core.errors import ConfigurationError
from aion_core.loading.discovery.langgraph_json import LANGGRAPH_JSON, read_langgraph_json
from aion_tools.package.functions import FUNCTION_EXTRAS
from aion_tools.package.secrets import looks_like_private_key, may_contain_credentials, searched_content
from aion_tools.programs import BuildError

IGNORE_FILES = (".aionignore", ".gitignore")
"""Names of files with ignore patterns in git's syntax. An .aionignore can include a file again with "!"."""
# Folders created by tools and not read by agents.
_GENERATED = frozenset({"node_modules"})
_NEEDLESS = frozenset(
    {
        "template.yaml",
        "samconfig.toml",
        "Makefile",
        "uv.lock",
        "poetry.lock",
        "pdm.lock",
        "Pipfile.lock",
        "requirements.txt",
    }
)
"""Names of files for building and deploying the project. They are not needed on AWS. A URL in a requirements.txt may
contain credentials."""
_FOR_INSTALLATION = re.compile(
    r"(?:pyproject|uv|poetry|pdm|pylock(?:\..+)?)\.toml|Pipfile(?:\.lock)?|(?:uv|poetry|pdm)\.lock|pip\.(?:conf|ini)"
    r"|setup\.cfg|Dockerfile|(?:.*[-_.])?(?:requirements|constraints)(?:[-_.].*)?\.(?:txt|in)"
)
"""Names of files that describe an installation. No agent needs the URLs in them on AWS."""
_INCLUDE = re.compile(rb"^[ \t]*(?:-[rc]|--requirement|--constraint)[ \t=]*([^\s\0]+)", re.MULTILINE)
# A user name alone is no secret, unless it is as long as a token. A password such as ${TOKEN} is a variable's.
_PASSWORD = re.compile(
    rb"://(?:[^/\s\"'@:]*:(?!\$\{)[^/\s\"']+|[\w-]{20,})@|^[ \t]*password\s*=\s*[\"'](?!\$\{)[^\"']", re.MULTILINE
)

_ZIPS = frozenset(f"{function}.zip" for function in FUNCTION_EXTRAS)
_STACKS = frozenset(
    {
        "state.yaml",
        "roles.yaml",
        "operations.yaml",
        "dashboard.yaml",
        "entrypoints.yaml",
        "functions.mk",
        "aion-yaml.schema.json",
    }
)

# Names of Python's own modules, except those for terminals, which no server imports.
_STANDARD = sys.stdlib_module_names - {"antigravity", "cmd", "code", "this", "turtle"}


@dataclass(frozen=True)
class LeftOut:
    """A file or folder of the project excluded from a package, with the reason."""

    path: str
    """Path relative to the project's folder. The path of a folder ends with a slash."""
    reason: str


@dataclass(frozen=True)
class Selection:
    """Result of selecting a project's files for a package."""

    files: tuple[Path, ...]
    """Files for the package, in an order independent of the machine."""
    left_out: tuple[LeftOut, ...]
    private_keys: tuple[str, ...]
    """Relative paths of files with a likely private key among `files`. A build with such a file fails."""
    credentials: tuple[str, ...] = ()
    """Relative paths of files with possible credentials among `files`."""

    @property
    def summary(self) -> str:
        """Line of text that names the excluded files, with possible secrets first."""
        if not self.left_out:
            return "no files excluded"
        secrets = [each.path for each in self.left_out if each.reason == "may hold secrets"]
        others = Counter(each.reason for each in self.left_out if each.reason != "may hold secrets")
        named = {reason: [each.path for each in self.left_out if each.reason == reason] for reason in others}
        listed = [f"{', '.join(paths[:8])}{f' and {len(paths) - 8} more' if len(paths) > 8 else ''} ({reason})"
                  for reason, paths in named.items()]  # fmt: skip
        return "excluded: " + "; ".join([*secrets, *listed])


def select(folder: Path) -> Selection:
    """Select the files of the project's folder for a package.

    Raises BuildError for an unprintable file name, the name of a standard module, or an unreadable file or folder.
    """
    try:
        return _selection(folder)
    except OSError as error:
        raise BuildError(
            f"cannot read {error.filename}: {error.strerror}. If no agent needs it, add it to .aionignore"
        ) from error


def _selection(folder: Path) -> Selection:
    files: list[Path] = []
    left_out: list[LeftOut] = []
    project = _Project(folder, _env_files(folder), _requirement_files(folder))
    for path, reason in _walk(project, folder, list(_rules_above(folder))):
        if reason is None:
            files.append(path)
        else:
            slash = "/" if path.is_dir() else ""
            left_out.append(LeftOut(f"{path.relative_to(folder).as_posix()}{slash}", reason))
    files.sort(key=lambda file: file.as_posix())
    names = [file.relative_to(folder).as_posix() for file in files]
    if bad := [name for name in names if not name.isprintable()]:
        raise BuildError(f"the file name {bad[0]!r} has unprintable characters: rename it, or add it to .aionignore")
    if shadows := [name for name in names if defined_module(name) in _STANDARD]:
        raise BuildError(
            f"rename {shadows[0]}, or add it to .aionignore: on AWS it would replace Python's own module {defined_module(shadows[0])}"
        )
    keys, credentials = [], []
    for file, name in zip(files, names, strict=True):
        content = searched_content(file)
        if looks_like_private_key(file, content):
            keys.append(name)
        elif may_contain_credentials(file, content):
            credentials.append(name)
    return Selection(tuple(files), tuple(left_out), tuple(keys), tuple(credentials))


UNIMPORTED = ("tests", "examples")
"""Folders of their own that some distributions install. No code imports them."""


def defined_module(name: str) -> str:
    """Return the name of the module that this file of the project's folder or its `src` defines, or ""."""
    return top_module(name.removeprefix("src/"))


def top_module(place: str) -> str:
    """Return the name of the module that a file at this place of a package defines at its top, or ""."""
    module, _, rest = place.partition("/")
    if module in UNIMPORTED:
        return ""
    return module.removesuffix(".py") if rest == "__init__.py" or (not rest and module.endswith(".py")) else ""


Rules = Sequence[tuple[Path, GitIgnoreSpec, str]]


@dataclass(frozen=True)
class _Project:
    folder: Path
    env_files: frozenset[Path]
    requirement_files: frozenset[Path]


def _env_files(folder: Path) -> frozenset[Path]:
    """Return the file named under `env` in langgraph.json, if any. It contains environment variables."""
    file = folder / LANGGRAPH_JSON
    try:
        named = read_langgraph_json(file).env_file if file.is_file() else None
    except ConfigurationError:
        return frozenset()
    return frozenset([named.resolve()]) if named else frozenset()


def _requirement_files(folder: Path) -> frozenset[Path]:
    """Return the requirements files in the folder, and the files that these include by `-r` or `-c`."""
    files = [file.resolve() for file in folder.glob("*requirements*")]
    for file in files:
        for name in _INCLUDE.findall(file.read_bytes()) if file.is_file() else ():
            included = (file.parent / os.fsdecode(name)).resolve()
            files += [] if included in files else [included]
    return frozenset(files)


def _walk(project: _Project, folder: Path, above: Rules) -> Iterator[tuple[Path, str | None]]:
    """Yield each file of the folder with the reason for excluding it, or None for a selected file.

    An excluded folder is yielded without its files.
    """
    # Sort .aionignore files of all folders behind, so that they override .gitignore files: the last match wins.
    rules = sorted([*above, *_rules(folder)], key=lambda rule: rule[2] == ".aionignore")
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = Path(entry.path)
        if path.name == "__pycache__" or path.suffix in (".pyc", ".pyo"):
            continue  # never report compiled files as excluded
        if reason := _reason(path, project, rules):
            yield path, reason
        elif entry.is_dir():
            # Do not follow a link to a folder that contains it, because the walk would never end.
            if not (entry.is_symlink() and path.resolve() in [parent.resolve() for parent in path.parents]):
                yield from _walk(project, path, rules)
        elif entry.is_file():
            yield path, None


def _rules_above(folder: Path) -> Iterator[tuple[Path, GitIgnoreSpec, str]]:
    """Yield the .gitignore rules of the parent folders up to the root of the git repository."""
    above = list(folder.parents)
    top = next((number for number, parent in enumerate(above) if (parent / ".git").exists()), None)
    if top is not None and not (folder / ".git").exists():
        for parent in reversed(above[: top + 1]):
            yield from (rule for rule in _rules(parent) if rule[2] == ".gitignore")


def _rules(folder: Path) -> Iterator[tuple[Path, GitIgnoreSpec, str]]:
    for name in IGNORE_FILES:
        file = folder / name
        if file.is_file():
            text = file.read_text(encoding="utf-8-sig", errors="replace")
            # GitIgnoreSpec would read `src/**/`, all folders below src, as `src/`.
            lines = re.sub(r"/\*\*/\s*$", "/**/*/", text, flags=re.MULTILINE).splitlines()
            yield folder, GitIgnoreSpec.from_lines([line for line in lines if _is_pattern(line)]), file.name


def _is_pattern(line: str) -> bool:
    """Return False for a pattern that git ignores because it is invalid, such as `[z-a]`."""
    try:
        GitIgnoreSpec.from_lines([line])
    except (re.error, ValueError):
        return False
    return True


def _is_ignored(path: str, spec: GitIgnoreSpec) -> bool | None:
    """Return True or False for a path that a pattern excludes or includes, as in git. Return None without a match.

    Patterns that match only a parent folder do not count. GitIgnoreSpec.check_file differs from git: a pattern such as
    `!src/**` takes precedence over all later names of folders.
    """
    for pattern in reversed(spec.patterns):
        if pattern.regex and (found := [*pattern.regex.finditer(path)]):
            # The group is the slash of a folder with the pattern's name, which may be a parent of the path.
            slash = found[-1].end(1) if pattern.regex.groups else -1
            # Match again without the slash, because `src/**` does not match the folder src itself.
            if slash == len(path) or (slash == -1 and pattern.regex.search(path.removesuffix("/"))):
                return pattern.include
    return None


def _reason(path: Path, project: _Project, rules: Rules) -> str | None:
    is_folder, target = path.is_dir(), path.resolve()
    # Look at the target too, because a link may have another name than the .env file.
    is_env = any(each.name.startswith(".env") or (each.suffix == ".env" and not is_folder) for each in (path, target))
    if is_env or target in project.env_files:
        return "may hold secrets"
    if path.name.startswith("."):
        return "hidden"
    if path.is_symlink() and project.folder not in target.parents:
        return "link out of the folder"
    if is_folder and path.name in _GENERATED:
        return "generated"
    if is_folder and ((path / "pyvenv.cfg").is_file() or (path / "conda-meta").is_dir()):
        return "virtual environment"
    if is_folder and path.name.endswith(".egg-info"):
        return "generated"
    for base, spec, name in reversed(rules):
        relative = f"{path.relative_to(base).as_posix()}{'/' if is_folder else ''}"
        if (ignored := _is_ignored(relative, spec)) is not None:
            return f"matched by {name}" if ignored else None
    if path.parent == project.folder and path.name in _NEEDLESS:
        return "not needed on AWS"
    if path.parent == project.folder / "infra" and path.name in _STACKS:
        return "not needed on AWS"
    # `aion build --zips DIR` and `--to DIR` write packages, which the next build must not contain.
    if path.name in _ZIPS or all((path / name).is_dir() for name in ("aion_core", "handlers")):
        return "a built package"
    is_for_installation = _FOR_INSTALLATION.fullmatch(path.name) or target in project.requirement_files
    if is_for_installation and path.is_file() and _PASSWORD.search(path.read_bytes()):
        return "has a password of a package index"
    return None
