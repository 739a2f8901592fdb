"""What `sam build` runs for a function (infra/functions.mk): its package, in the folder that SAM names.

It runs in the project's folder or in a copy of it.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

from aion_core.packaging import uv
from aion_core.packaging.packages import package
from aion_core.packaging.plan import BuildError
from aion_core.template.reader import TemplateError


def main(arguments: list[str] | None = None) -> int:
    """Build a function as `sam build` asks.

    AION_ARCHITECTURE and AION_PYTHON build it for another processor or Python than template.yaml's defaults.
    """
    parser = argparse.ArgumentParser(prog="python -m aion_core.packaging.build_function", description=__doc__)
    parser.add_argument("function", help="its logical id in template.yaml")
    parser.add_argument("target", type=Path, help="the folder to fill ($ARTIFACTS_DIR)")
    given = parser.parse_args(arguments)
    architecture, python = os.environ.get("AION_ARCHITECTURE") or None, os.environ.get("AION_PYTHON") or None
    try:
        built = package(given.function, architecture=architecture, python=python)
    except (BuildError, TemplateError, uv.UvMissing) as error:
        print(f"build of {given.function}: {error}", file=sys.stderr)
        return 1
    shutil.copytree(built.code, given.target, dirs_exist_ok=True)
    print(built)
    if built.warning:
        print(f"{given.function}: {built.warning}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
