"""Cache folder for built packages; projects share it, since a package's name is a hash of all that it is made from."""

import os
from pathlib import Path

from platformdirs import user_cache_path


def cache() -> Path:
    """Return the folder: AION_PACKAGE_CACHE, or aion-lambda's own in the user's cache folder."""
    given = os.environ.get("AION_PACKAGE_CACHE")
    return Path(given) if given else user_cache_path("aion-lambda") / "packages"
