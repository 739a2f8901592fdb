"""Location of the files shipped with the code: SAM template, nested stacks, handlers, build makefile."""

from pathlib import Path

_IN_WHEEL = Path(__file__).parent / "_shipped"
_IN_REPOSITORY = Path(__file__).resolve().parents[1]


def shipped() -> Path:
    """Return the folder with `template.yaml`, `samconfig.toml`, `infra/` and `handlers/`.

    In an installed wheel these files are package data. In a checkout they are at the root of the repository.
    """
    return _IN_WHEEL if _IN_WHEEL.is_dir() else _IN_REPOSITORY
