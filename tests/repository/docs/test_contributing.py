"""CONTRIBUTING.md: its map has each room of the two houses, on the floor that import-linter checks."""

import re
import subprocess
import tomllib
from collections.abc import Iterator

import pytest

from tests.support.server import ROOT

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """Return the text of the section of CONTRIBUTING with this title, up to the next heading."""
    return CONTRIBUTING.split(f"### {title}\n")[1].partition("\n##")[0]


def rooms(house: str) -> list[tuple[str, int]]:
    """Return the name and the floor of each room in the house's table, in its order; floor 0 is none."""
    rows = re.findall(r"^\| (`[^|]+`) \| (\d+|–) \|", section(house), re.MULTILINE)
    return [(name, int(floor) if floor.isdecimal() else 0) for names, floor in rows for name in entries(names)]


def entries(names: str) -> Iterator[str]:
    yield from (name.rstrip("/").removesuffix(".py") for name in re.findall(r"`([^`]+)`", names))


def floors(house: str) -> dict[str, int]:
    """Return the floor of each module of the house by import-linter's contract: 1 is the lowest."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    [layers] = [each for each in linter["contracts"] if each.get("containers") == [house]]
    found = {room: floor for floor, rooms in enumerate(layers["layers"][::-1], start=1) for room in rooms.split(" | ")}
    return found | dict.fromkeys(layers.get("exhaustive_ignores", ()), 0)


@pytest.mark.parametrize("house", ["aion_core", "aion_tools"])
def test_contributing_lists_each_room_with_its_floor(house: str) -> None:
    assert dict(rooms(house)) == floors(house)
    assert len(rooms(house)) == len(floors(house))


def test_contributing_lists_each_entry_of_repository() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    rows = re.findall(r"^\| (`[^|]+`) \|", section("The repository"), re.MULTILINE)
    listed = [name.rstrip("/") for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert sorted(listed) == sorted({name.partition("/")[0] for name in tracked if not name.startswith(".")})
