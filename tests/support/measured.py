"""`python -m tests.support.measured OUT SETTINGS MODULE ARGUMENT…` runs a module and writes its peak of memory to OUT.

SETTINGS is a JSON object of constants by their full names, for limits of time that no test waits for.
"""

import importlib
import json
import runpy
import sys
from pathlib import Path


def peak_megabytes(process: int | str = "self") -> float:
    """Return the largest resident size that the process has had (VmHWM)."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024


def main(out: str, settings: str, module: str, *arguments: str) -> None:
    """Run the module."""
    for name, value in json.loads(settings).items():
        place, _, constant = name.rpartition(".")
        setattr(importlib.import_module(place), constant, value)
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__")
    finally:
        Path(out).write_text(str(peak_megabytes()))


if __name__ == "__main__":
    main(*sys.argv[1:])
