"""`make lines`: raw lines per package, files over 250 lines, and section rulers with their reasons.

A section ruler (`# ── Title ───`) is a folder or file that has not been made yet. One that stays has its reason in the comment
line below it. Without a reason, the command fails.
"""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SOURCE = ("aion", "aion_core", "aion_tools", "handlers", "scripts")
HOUSES = ("aion_core", "aion_tools")
"""Folders whose packages are counted one by one."""
LONG = 250
"""Most files have fewer lines than this number."""
_RULER = re.compile(r"\s*# ── (.*?) ─*$")
_COMMENT = re.compile(r"\s*# (?!──)(.*)")


def python_files(*folders: str) -> list[Path]:
    """Return the Python files below the folders that Git tracks."""
    listed = subprocess.run(["git", "ls-files", *folders], capture_output=True, text=True, check=True).stdout  # noqa: S603, S607
    return [path for name in listed.splitlines() if (path := Path(name)).suffix == ".py" and path.exists()]


@dataclass(frozen=True)
class Ruler:
    """A section ruler in a source file, and the reason why it stays; "" without one."""

    place: str
    """File and line number."""
    title: str
    reason: str

    def __str__(self) -> str:
        """Return the ruler as a line of the report."""
        return f"{self.place}: {self.title}: {self.reason or 'NO REASON in the comment line below'}"


def package_of(path: Path) -> str:
    """Return the package of a source file: a folder of a house, else the top folder."""
    is_packaged = path.parts[0] in HOUSES and len(path.parts) > 2
    return "/".join(path.parts[:2]) if is_packaged else path.parts[0]


def rulers_in(path: Path, text: str) -> Iterator[Ruler]:
    """Yield the section rulers of a file."""
    lines = text.splitlines()
    for number, (line, below) in enumerate(zip(lines, [*lines[1:], ""], strict=True), start=1):
        if ruler := _RULER.fullmatch(line):
            reason = _COMMENT.fullmatch(below)
            yield Ruler(f"{path}:{number}", ruler[1], reason[1] if reason else "")


def report(texts: Mapping[Path, str]) -> Iterator[str]:
    """Yield the lines of the report about these files: packages in the order of the files, with sums of the houses."""
    lengths = {path: len(text.splitlines()) for path, text in texts.items()}
    packages, files, sums = Counter[str](), Counter[str](), Counter[str]()
    for path, count in lengths.items():
        packages[package_of(path)] += count
        files[package_of(path)] += 1
        sums[path.parts[0]] += count
    for top in sums:
        yield f"{sums[top]:7,} {top}"
        if top in HOUSES:
            inner = sorted(
                (name for name in packages if name.partition("/")[0] == top), key=lambda name: -packages[name]
            )
            yield from (f"{packages[name]:11,} {name} ({files[name]} files)" for name in inner)
    source = {path: count for path, count in lengths.items() if path.parts[0] in SOURCE}
    long = sorted((path for path, count in source.items() if count > LONG), key=lambda path: (-source[path], path))
    yield f"{len(long)} of {len(source)} source files have more than {LONG} lines:"
    yield from (f"{source[path]:7,} {path}" for path in long)


def main() -> int:
    """Print the report, and return the exit code: 1 if a section ruler has no reason."""
    texts = {path: path.read_text(encoding="utf-8") for path in python_files(*SOURCE, "tests")}
    print(*report(texts), sep="\n")
    rulers = [ruler for path, text in texts.items() if path.parts[0] in SOURCE for ruler in rulers_in(path, text)]
    print(f"{len(rulers)} section rulers in {len({each.place.partition(':')[0] for each in rulers})} source files:")
    print(*rulers, sep="\n")
    return 0 if all(ruler.reason for ruler in rulers) else 1


if __name__ == "__main__":
    sys.exit(main())
