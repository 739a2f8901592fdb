"""The part of a package that stays the same when the project's code changes: the dependencies and aion's own code."""

import json
import os
import sys
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aion_tools.package.cache import entry, filled_once
from aion_tools.package.installed import Installed, without_excluded
from aion_tools.package.package import add_to_zip, files_in, fitting, put, weights_of


@dataclass(frozen=True)
class Part:
    """A finished part in the cache, for every build that needs the same one. Nobody may change its files."""

    code: Path
    """Folder with its files, as in the package. They are hard links to the installed dependencies."""
    size: int
    """Size of its files in bytes."""
    weights: Mapping[str, int]
    """Size of the files of each distribution in bytes."""
    dropped: Sequence[str]
    """Names of the distributions whose .pyc files are left out, because the package would be too large."""
    excluded: int
    """Size in bytes of what `exclude` in aion.yaml leaves out."""

    def zip(self, without: Iterable[str]) -> Path:
        """Return a zip in the cache with the part's files, without those at these places."""
        left_out = sorted(place for place in without if (self.code / place).is_file())
        # Its bytes depend on the Python and the zlib that write it.
        folder = entry("zip", self.code.parent.name, sys.version, zlib.ZLIB_RUNTIME_VERSION, *left_out)
        with filled_once(folder) as is_new:
            if is_new:
                files = files_in(self.code)
                add_to_zip(folder / "code.zip", {place: files[place] for place in files if place not in left_out})
        return folder / "code.zip"


def finished(
    installed: Installed, own: Path, names: Collection[str], words: Iterable[str], exclude: Sequence[str], room: int
) -> Part:
    """Return the part with these distributions, made now unless the cache has it. Raises BuildError.

    `own` is the cached folder of aion's own code. `words` are those that the project's code quotes. `room` is the size in
    bytes above which .pyc files are left out.
    """
    services = installed.services(words)
    program = [file.read_text(encoding="utf-8") for file in sorted(Path(__file__).parent.glob("*.py"))]
    inputs = [installed.digest, own.parent.name, sorted(names), services, exclude, room, program]
    folder = entry("part", json.dumps(inputs))
    with filled_once(folder) as is_new:
        if is_new:
            installed.refuse_unmatched(exclude)
            files = installed.files(names, services)
            kept = without_excluded(files, exclude)
            of_aion = files_in(own)
            size_of_aion = sum(file.stat().st_size for file in of_aion.values())
            fitted = fitting(kept, room - size_of_aion)
            # Two distributions may install the same file.
            for place, source in {**{file.place: file.source for file in fitted.files}, **of_aion}.items():
                put(source, folder / "code" / place, os.link)
            weights = weights_of(fitted.files)
            excluded = weights_of(files).total() - weights_of(kept).total()
            found = (weights.total() + size_of_aion, weights, fitted.dropped, excluded)
            (folder / "part.json").write_text(json.dumps(found))
    return Part(folder / "code", *json.loads((folder / "part.json").read_text()))
