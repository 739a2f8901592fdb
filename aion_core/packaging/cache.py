"""Cache of built packages, shared by all projects: a package's name contains a hash of its inputs."""

import os
from pathlib import Path

from platformdirs import user_cache_path


def cache() -> Path:
    """Return AION_PACKAGE_CACHE or, by default, aion-lambda's folder in the user's cache."""
    given = os.environ.get("AION_PACKAGE_CACHE")
    return Path(given) if given else user_cache_path("aion-lambda") / "packages"
