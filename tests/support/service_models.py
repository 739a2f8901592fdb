"""One loader of botocore's service descriptions for a whole process.

Otherwise each session of botocore reads a megabyte of JSON for its first client, which takes a third of a second.
"""

import functools
import sys
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from botocore.loaders import Loader


class _Paths(list[str]):
    """Search paths without duplicates: every session of boto3 adds its own."""

    def append(self, path: str) -> None:
        if path not in self:
            super().append(path)


def share() -> None:
    """Give all later sessions of a process one loader, after the import of botocore."""
    session = sys.modules.get("botocore.session")
    if session is None:
        return
    create = session.create_loader

    @functools.cache
    def shared(data_path: str | None = None) -> "Loader":
        loader: Any = create(data_path)
        loader._search_paths = _Paths(loader.search_paths)
        return cast("Loader", loader)

    session.create_loader = shared  # type: ignore[attr-defined]
