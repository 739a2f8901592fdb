"""Selection of a project's files for a Lambda package, by .gitignore, .aionignore and built-in rules."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec, Pattern, RegexPattern

from aion_core.errors import ConfigurationError
from aion_core.loading.discovery.langgraph_json import read_langgraph_json
from aion_core.loading.importing.places import LANGGRAPH_JSON
from aion_tools.package.secrets import DOTENV, Finding, SecretVerdict, findings_in, rule_of_name
from aion_tools.programs import BuildError

_NEEDLESS = (
    "template.yaml", "samconfig.toml", "Makefile", "requirements.txt", "pylock.toml", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock",
)  # fmt: skip
_WANTED = ""  # the reason for including a file that an .aionignore includes again by "!"
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
    findings: tuple[Finding, ...]
    """Possible secrets. A build with a refused one among `files` fails."""

    def with_verdict(self, verdict: SecretVerdict) -> list[Finding]:
        """Return the findings with this verdict."""
        return [each for each in self.findings if each.verdict is verdict]

    @property
    def summary(self) -> str:
        """Line of text that names the excluded files, with possible secrets first."""
        secrets = {each.why for each in self.findings}
        reasons: dict[str, list[str]] = {}
        for each in sorted(self.left_out, key=lambda each: each.reason not in secrets):
            reasons.setdefault(each.reason, []).append(each.path)
        listed = []
        for reason, paths in reasons.items():
            shown = len(paths) if reason in secrets else 8
            more = f" and {len(paths) - shown} more" if len(paths) > shown else ""
            listed.append(f"{', '.join(paths[:shown])}{more} ({reason})")
        return f"excluded: {'; '.join(listed)}" if listed else "no files excluded"


Rule = tuple[Path, list[Pattern], str]
"""Folder of an ignore file, its patterns, and its name."""


@dataclass(frozen=True)
class _Project:
    folder: Path
    env_file: Path | None


def select(folder: Path) -> Selection:
    """Select the files of the project's folder for a package.

    Raises BuildError for an unprintable file name, the name of a standard module, or an unreadable file or folder.
    """
    project = _Project(folder.resolve(), _env_file(folder.resolve()))
    files, left_out, findings = dict[str, Path](), list[LeftOut](), list[Finding]()
    try:
        for path, reason in _walk(project, project.folder, list(_rules_above(project.folder))):
            name = path.relative_to(project.folder).as_posix()
            if reason == DOTENV.why:
                findings.append(Finding(name, None, DOTENV.name, DOTENV.verdict, reason))
            elif not reason:
                found = findings_in(path, name, is_wanted=reason == _WANTED)
                reason = next((each.why for each in found if each.verdict is SecretVerdict.LEFT_OUT), None)
                findings += found
            if reason:
                left_out.append(LeftOut(f"{name}/" if path.is_dir() else name, reason))
            else:
                files[name] = path
    except OSError as error:
        remedy = "If no agent needs it, add it to .aionignore"
        raise BuildError(f"cannot read {error.filename}: {error.strerror}. {remedy}") from error
    for name in files:
        if not name.isprintable():
            raise BuildError(f"the file name {name!r} has unprintable characters: rename it, or add it to .aionignore")
        if (module := top_module(name.removeprefix("src/"))) in _STANDARD:
            also = f"on AWS it would replace Python's own module {module}"
            raise BuildError(f"rename {name}, or add it to .aionignore: {also}")
    return Selection(tuple(files[name] for name in sorted(files)), tuple(left_out), tuple(findings))


def top_module(place: str) -> str:
    """Return the name of the module that a file at this place of a package defines at its top, or ""."""
    module, _, rest = place.partition("/")
    if module in ("tests", "examples"):
        return ""  # some distributions install such a folder, which no code imports
    return module.removesuffix(".py") if rest == "__init__.py" or (not rest and module.endswith(".py")) else ""


def _env_file(folder: Path) -> Path | None:
    """Return the file named under `env` in langgraph.json, if any. It contains environment variables."""
    file = folder / LANGGRAPH_JSON
    try:
        named = read_langgraph_json(file).env_file if file.is_file() else None
    except ConfigurationError:
        return None
    return named.resolve() if named else None


def _walk(project: _Project, folder: Path, above: Sequence[Rule]) -> Iterator[tuple[Path, str | None]]:
    """Yield each file of the folder with the reason for excluding it, or None or _WANTED for a selected file.

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
            yield path, reason


def _rules_above(folder: Path) -> Iterator[Rule]:
    """Yield the .gitignore rules of the parent folders up to the root of the git repository."""
    above = [folder, *folder.parents]
    top = next((number for number, parent in enumerate(above) if (parent / ".git").exists()), 0)
    for parent in reversed(above[1 : top + 1]):
        yield from (rule for rule in _rules(parent) if rule[2] == ".gitignore")


def _rules(folder: Path) -> Iterator[Rule]:
    for name in (".aionignore", ".gitignore"):
        file = folder / name
        if file.is_file():
            text = file.read_text(encoding="utf-8-sig", errors="replace")
            # GitIgnoreSpec would read `src/**/`, all folders below src, as `src/`.
            patterns = list[Pattern]()
            for line in re.sub(r"/\*\*/\s*$", "/**/*/", text, flags=re.MULTILINE).splitlines():
                with suppress(re.error, ValueError):  # git ignores an invalid pattern, such as `[z-a]`
                    patterns += GitIgnoreSpec.from_lines([line]).patterns
            yield folder, patterns, name


def _is_ignored(path: str, patterns: Sequence[Pattern]) -> bool | None:
    """Return True or False for a path that a pattern excludes or includes, as in git. Return None without a match.

    Patterns that match only a parent folder do not count. GitIgnoreSpec.check_file differs from git: a pattern such as
    `!src/**` takes precedence over all later names of folders.
    """
    for pattern in reversed(patterns):
        if isinstance(pattern, RegexPattern) and pattern.regex and (found := [*pattern.regex.finditer(path)]):
            # The group is the slash of a folder with the pattern's name, which may be a parent of the path.
            slash = found[-1].end(1) if pattern.regex.groups else -1
            # Match again without the slash, because `src/**` does not match the folder src itself.
            if slash == len(path) or (slash == -1 and pattern.regex.search(path.removesuffix("/"))):
                return pattern.include
    return None


def _reason(path: Path, project: _Project, rules: Sequence[Rule]) -> str | None:
    is_folder, target = path.is_dir(), path.resolve()
    is_inside = project.folder in target.parents
    names = [path.name, *(target.relative_to(project.folder).parts if is_inside else ())]
    # Look at a link's target too, because it may have another name, or be in a hidden folder.
    if not is_folder and (target == project.env_file or rule_of_name(path.name, target.name) is DOTENV):
        return DOTENV.why
    if any(name.startswith(".") for name in names):
        return "hidden"
    if path.is_symlink() and not is_inside:
        return "link out of the folder"
    if is_folder and (path.name == "node_modules" or path.name.endswith(".egg-info")):
        return "generated"
    if is_folder and ((path / "pyvenv.cfg").is_file() or (path / "conda-meta").is_dir()):
        return "virtual environment"
    for base, patterns, name in reversed(rules):
        relative = f"{path.relative_to(base).as_posix()}{'/' if is_folder else ''}"
        if (ignored := _is_ignored(relative, patterns)) is not None:
            if ignored or name == ".aionignore":
                return f"matched by {name}" if ignored else _WANTED
            break
    # `aion eject` writes stacks/NAME.yaml.
    is_stack = path.parent == project.folder / "stacks" and path.suffix == ".yaml"
    if is_stack or (path.parent == project.folder and path.name in _NEEDLESS):
        return "not needed on AWS"
    if re.fullmatch(r"aion_lambda-.*\.whl", path.name):
        return "aion's own code is in every package"
    # `aion build --zips DIR` and `--to DIR` write packages, which the next build must not contain.
    if path.name.endswith("Function.zip") or all((path / name).is_dir() for name in ("aion_core", "handlers")):
        return "a built package"
    return None
