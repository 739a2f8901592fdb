"""Import path of the runtime process, as Lambda's own bootstrap.py makes it."""

import site
import sys
from pathlib import Path


def extend(code: Path, layers: Path = Path("/opt/python"), runtime: Path = Path("/var/runtime")) -> None:
    """Add the layers' folders after the function's code and Lambda's packages last, and run the folders' `.pth` files.

    `code` is the folder of the function's code, usually on the path already. `layers` is Lambda's folder for the
    Python files of layers: their packages are there, or in `lib/python3.x/site-packages` below it.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folders = [str(layers / "lib" / version / "site-packages"), str(layers)]
    first = sys.path.index(str(code)) + 1 if str(code) in sys.path else 0
    sys.path[first:first] = [folder for folder in folders if folder not in sys.path]
    for folder in (str(code), *folders):
        site.addsitedir(folder)
    if str(runtime) not in sys.path:
        sys.path.append(str(runtime))
