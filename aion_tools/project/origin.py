"""Source of the running aion-lambda: package index, repository, URL, or files of this machine. New projects use it too."""

import json
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from aion_core import __version__

DISTRIBUTION = "aion-lambda"
_WHEEL = f"vendor/aion_lambda-{__version__}-py3-none-any.whl"


@dataclass(frozen=True, slots=True)
class Origin:
    """Source of aion-lambda for a new project. All attributes are empty for a package index."""

    source: str = ""
    """Inline table for `[tool.uv.sources]` in pyproject.toml."""
    place: str = ""
    """Path or URL of the source, for people."""
    direct: str = ""
    """Direct reference for pip, such as `@ URL`. Empty for a wheel in the project."""
    wheel: str = ""
    """Path in the project of a wheel of aion-lambda. It is there because no other machine has this installation."""
    clone: str = ""
    """Folder of the sources of an editable installation. The wheel is built from it, else packed from installed files."""

    def requirement(self, extras: str) -> str:
        """Return the requirement for aion-lambda with these extras, for a dependency tool that knows no sources."""
        if self.wheel:
            return f"./{self.wheel}[{extras}]"
        return f"{DISTRIBUTION}[{extras}] {self.direct}" if self.direct else requirement(extras)


def origin() -> Origin:
    """Return the source of the installed aion-lambda."""
    try:
        installed = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return Origin()
    # uv writes uv_cache.json for a file of this machine only. In an installation by UV_FIND_LINKS it is the only trace.
    return recorded(installed.read_text("direct_url.json"), is_local=bool(installed.read_text("uv_cache.json")))


def recorded(direct_url: str | None, *, is_local: bool = False) -> Origin:
    """Return the source that the text of a direct_url.json (PEP 610) names. Without it, return the index or the wheel."""
    if not direct_url:
        return _local("") if is_local else Origin()
    known: dict[str, Any] = json.loads(direct_url)
    url: str = known["url"]
    if "vcs_info" in known:
        vcs = known["vcs_info"]
        subdirectory = known.get("subdirectory")
        of = {vcs["vcs"]: url, "rev": vcs["commit_id"], **({"subdirectory": subdirectory} if subdirectory else {})}
        inside = f"#subdirectory={subdirectory}" if subdirectory else ""
        return Origin(_table(of), url, f"@ {vcs['vcs']}+{url}@{vcs['commit_id']}{inside}")
    if urlsplit(url).scheme != "file":
        return Origin(_table({"url": url}), url, f"@ {url}")
    is_editable = known.get("dir_info", {}).get("editable")
    return _local(str(Path(url2pathname(urlsplit(url).path))) if is_editable else "")


def versions(version: str = __version__) -> str:
    """Return the version range for a new project, from this version to below the next incompatible version."""
    major, minor = (int(part) for part in version.split(".")[:2])
    before = f"0.{minor + 1}" if major == 0 else str(major + 1)
    return f">={version},<{before}"


def requirement(extras: str) -> str:
    """Return the requirement for aion-lambda with its version range and these extras."""
    return f"{DISTRIBUTION}[{extras}]{versions()}"


def _local(clone: str) -> Origin:
    return Origin(_table({"path": _WHEEL}), _WHEEL, wheel=_WHEEL, clone=clone)


def _table(values: dict[str, Any]) -> str:
    return "{ " + ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()) + " }"
