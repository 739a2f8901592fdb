"""Import this module first to disable garbage collection, which makes the imports that follow a fifth faster."""

import gc

gc.disable()


def collect_again() -> None:
    """Enable garbage collection again. Objects created so far, such as imported modules, are never collected."""
    gc.freeze()
    gc.enable()
