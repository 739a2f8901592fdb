"""Source of the running aion-lambda (package index, file, folder or repository). New projects install it from there."""

import json
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from aion_core import __version__

DISTRIBUTION = "aion-lambda"


@dataclass(frozen=True, slots=True)
class Origin:
    """Source of aion-lambda for a new project."""

    source: str = ""
    """Inline table for `[tool.uv.sources]` in pyproject.toml. Empty for the package index."""
    place: str = ""
    """Path or URL of the source, in a form for people. Empty for the package index."""
    direct: str = ""
    """Direct reference for pip, such as `@ URL`. Empty for the package index."""


def origin(direct_url: str | None = None) -> Origin:
    """Return the source of the installed aion-lambda, read from its direct_url.json (PEP 610) or the given text."""
    text = _recorded() if direct_url is None else direct_url
    if not text:
        return Origin()
    recorded: dict[str, Any] = json.loads(text)
    url: str = recorded["url"]
    if "vcs_info" in recorded:
        vcs = recorded["vcs_info"]
        subdirectory = recorded.get("subdirectory")
        of = {vcs["vcs"]: url, "rev": vcs["commit_id"], **({"subdirectory": subdirectory} if subdirectory else {})}
        inside = f"#subdirectory={subdirectory}" if subdirectory else ""
        return Origin(_table(of), url, f"@ {vcs['vcs']}+{url}@{vcs['commit_id']}{inside}")
    if urlsplit(url).scheme != "file":
        return Origin(_table({"url": url}), url, f"@ {url}")
    path = str(Path(url2pathname(urlsplit(url).path)))
    is_editable = bool(recorded.get("dir_info", {}).get("editable"))
    return Origin(_table({"path": path, **({"editable": True} if is_editable else {})}), path, f"@ {url}")


def versions(version: str = __version__) -> str:
    """Return the version range for a new project, from this version to below the next incompatible version."""
    major, minor = (int(part) for part in version.split(".")[:2])
    before = f"0.{minor + 1}" if major == 0 else str(major + 1)
    return f">={version},<{before}"


def requirement(extra: str) -> str:
    """Return the requirement for aion-lambda with its version range, and with an extra unless it is ""."""
    return f"{DISTRIBUTION}[{extra}]{versions()}" if extra else f"{DISTRIBUTION}{versions()}"


def _recorded() -> str | None:
    try:
        return distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        return None


def _table(values: dict[str, Any]) -> str:
    return "{ " + ", ".join(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()) + " }"
