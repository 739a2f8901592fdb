"""ADK's artifacts in a dict; they live as long as the process."""

from collections.abc import Sequence

from aion_core.ports import Clock
from aion_core.sessions.artifacts import About, Place, StoredArtifacts


class MemoryArtifacts(StoredArtifacts):
    """ADK's artifact service for one process; all turns share it."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._kept: dict[Place, dict[int, tuple[About, bytes]]] = {}

    async def _versions(self, place: Place) -> Sequence[int]:
        return list(self._kept.get(place, ()))

    async def _put(self, place: Place, version: int, about: About, content: bytes) -> bool:
        return self._kept.setdefault(place, {}).setdefault(version, (about, content))[0] is about

    async def _get(self, place: Place, version: int) -> tuple[About, bytes] | None:
        return self._kept.get(place, {}).get(version)

    async def _about(self, place: Place, version: int) -> About | None:
        found = await self._get(place, version)
        return found[0] if found is not None else None

    async def _names(self, app_name: str, user_id: str, session_id: str | None) -> Sequence[str]:
        return [place.filename for place in self._kept if place[:3] == (app_name, user_id, session_id)]

    async def _remove(self, place: Place) -> None:
        self._kept.pop(place, None)
