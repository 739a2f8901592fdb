"""No garbage collection while much is imported, which is a fifth faster: importing this turns it off."""

import gc

gc.disable()


def collect_again() -> None:
    """Turn it on again, for what is made from now on."""
    gc.freeze()
    gc.enable()
