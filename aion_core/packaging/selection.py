"""Selection of the project's files that go into a package, by .gitignore, .aionignore and rules of our own."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from aion_core.agents.langgraph_json import NAME, read_langgraph_json
from aion_core.errors import ConfigurationError

IGNORE_FILES = (".aionignore", ".gitignore")
"""Files with patterns as git reads them, in any folder; an .aionignore may take back, by "!", what a .gitignore names."""

# Folders and files that tools make, and that no agent reads.
_MADE = frozenset({"node_modules"})
_NEEDLESS = frozenset(
    {"template.yaml", "samconfig.toml", "Makefile", "uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock"}
)
"""Files in the project's folder that build and deploy it."""
_STACKS = frozenset({"state.yaml", "roles.yaml", "operations.yaml", "dashboard.yaml", "fronts.yaml", "functions.mk"})
_PRIVATE_KEY = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\s|\\r|\\n)+(?:[A-Za-z-]+: [^\n]*\n|\s)*[A-Za-z0-9+/=]{16}"
)
_AWS_KEY = re.compile(rb"^\s*aws_secret_access_key\s*=\s*[A-Za-z0-9/+]{40}\s*$", re.MULTILINE | re.IGNORECASE)
_KEY_STORES = frozenset({".p12", ".pfx", ".jks", ".keystore", ".ppk"})
_KEY_NAMES = re.compile(r"id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?")
# A private key is short; what is larger is data.
_LARGEST_KEY = 1024 * 1024


@dataclass(frozen=True)
class LeftOut:
    """A file or folder that stays out of a package, and the reason."""

    path: str
    """Relative to the project's folder; a folder ends in a slash."""
    reason: str


@dataclass(frozen=True)
class Selection:
    """The project's files, by kind of treatment."""

    files: tuple[Path, ...]
    """Files for the package, in one order for all machines."""
    left_out: tuple[LeftOut, ...]
    private_keys: tuple[str, ...]
    """Files among `files` that look like a private key, relative to the folder; no package is built with one."""

    @property
    def summary(self) -> str:
        """One line for people: what was left out, secrets first."""
        if not self.left_out:
            return "nothing left out"
        secrets = [each.path for each in self.left_out if each.reason == "may hold secrets"]
        others = Counter(each.reason for each in self.left_out if each.reason != "may hold secrets")
        named = {reason: [each.path for each in self.left_out if each.reason == reason] for reason in others}
        told = [f"{', '.join(paths[:8])}{f' and {len(paths) - 8} more' if len(paths) > 8 else ''} ({reason})"
                for reason, paths in named.items()]  # fmt: skip
        return "left out: " + "; ".join([*secrets, *told])


def select(folder: Path) -> Selection:
    """Return which files of the project's folder a package holds, and which it does not."""
    files: list[Path] = []
    left_out: list[LeftOut] = []
    for path, reason in _walk(_Project(folder, _env_files(folder)), folder, []):
        if reason is None:
            files.append(path)
        else:
            slash = "/" if path.is_dir() else ""
            left_out.append(LeftOut(f"{path.relative_to(folder).as_posix()}{slash}", reason))
    files.sort(key=lambda file: file.as_posix())
    keys = [file.relative_to(folder).as_posix() for file in files if looks_like_private_key(file)]
    return Selection(tuple(files), tuple(left_out), tuple(keys))


def looks_like_private_key(file: Path) -> bool:
    """Tell whether the file is, or holds, a private key: by its name, by a PEM block, or by a line of AWS credentials."""
    if file.suffix.lower() in _KEY_STORES or _KEY_NAMES.fullmatch(file.name):
        return True
    if file.stat().st_size > _LARGEST_KEY:
        return False
    content = file.read_bytes()
    return _PRIVATE_KEY.search(content) is not None or _AWS_KEY.search(content) is not None


Rules = Sequence[tuple[Path, GitIgnoreSpec, str]]


@dataclass(frozen=True)
class _Project:
    folder: Path
    env_files: frozenset[Path]


def _env_files(folder: Path) -> frozenset[Path]:
    """Return the file that a langgraph.json names under `env`: it holds variables, whatever it is called."""
    file = folder / NAME
    try:
        named = read_langgraph_json(file).env_file if file.is_file() else None
    except ConfigurationError:
        return frozenset()
    return frozenset([named.resolve()]) if named else frozenset()


def _walk(project: _Project, folder: Path, above: Rules) -> Iterator[tuple[Path, str | None]]:
    """Yield each file with the reason to leave it out, or None; of a folder that is left out the folder alone."""
    rules = [*above, *_rules(folder)]
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = Path(entry.path)
        if path.name == "__pycache__" or path.suffix in (".pyc", ".pyo"):
            continue  # not worth a word
        if reason := _reason(path, project, rules):
            yield path, reason
        elif entry.is_dir():
            # A link to a folder above would be walked for ever.
            if not (entry.is_symlink() and path.resolve() in (path, *path.parents)):
                yield from _walk(project, path, rules)
        elif entry.is_file():
            yield path, None


def _rules(folder: Path) -> Iterator[tuple[Path, GitIgnoreSpec, str]]:
    # The last that matches wins: .aionignore says more of packages than .gitignore.
    for name in reversed(IGNORE_FILES):
        file = folder / name
        if file.is_file():
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            yield folder, GitIgnoreSpec.from_lines(lines), file.name


def _reason(path: Path, project: _Project, rules: Rules) -> str | None:
    is_folder = path.is_dir()
    if path.name.startswith(".env") or (path.suffix == ".env" and not is_folder) or path.resolve() in project.env_files:
        return "may hold secrets"
    if path.name.startswith("."):
        return "hidden"
    if path.is_symlink() and project.folder not in path.resolve().parents:
        return "links out of the folder"
    if is_folder and path.name in _MADE:
        return "made by tools"
    if is_folder and (path / "pyvenv.cfg").is_file():
        return "virtual environment"
    if is_folder and path.name.endswith(".egg-info"):
        return "made by tools"
    for base, spec, name in reversed(rules):
        asked = f"{path.relative_to(base).as_posix()}{'/' if is_folder else ''}"
        ignored = spec.check_file(asked).include
        if ignored is not None:
            return f"named by {name}" if ignored else None
    if path.parent == project.folder and path.name in _NEEDLESS:
        return "not needed on AWS"
    if path.parent == project.folder / "infra" and path.name in _STACKS:
        return "not needed on AWS"
    return None
