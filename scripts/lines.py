"""`make lines`: raw lines per package, and files over 250 lines."""

import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

SOURCE = ("aion", "aion_core", "aion_tools", "handlers", "scripts")
HOUSES = ("aion_core", "aion_tools")
"""Folders whose packages are counted one by one."""
LONG = 250
"""Most files have fewer lines than this number."""


def python_files(*folders: str) -> list[Path]:
    """Return the Python files below the folders that Git tracks."""
    listed = subprocess.run(["git", "ls-files", *folders], capture_output=True, text=True, check=True).stdout  # noqa: S603, S607
    return [path for name in listed.splitlines() if (path := Path(name)).suffix == ".py" and path.exists()]


def package_of(path: Path) -> str:
    """Return the package of a source file: a folder of a house, else the top folder."""
    is_packaged = path.parts[0] in HOUSES and len(path.parts) > 2
    return "/".join(path.parts[:2]) if is_packaged else path.parts[0]


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


def main() -> None:
    """Print the report."""
    print(*report({path: path.read_text(encoding="utf-8") for path in python_files(*SOURCE, "tests")}), sep="\n")


if __name__ == "__main__":
    main()
