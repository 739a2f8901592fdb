"""Import this module first to disable garbage collection, which makes the imports that follow a fifth faster."""

import gc
import os

gc.disable()

# Remove the value set by `run_forkserver`, so that Python programs started by agents import the modules beside them.
if os.environ.get("PYTHONSAFEPATH") == "aion":
    del os.environ["PYTHONSAFEPATH"]


def collect_again() -> None:
    """Enable garbage collection again. Objects created so far, such as imported modules, are never collected."""
    gc.freeze()
    gc.enable()
