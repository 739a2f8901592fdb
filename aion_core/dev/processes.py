"""Entry points of the processes: what each needs is imported in it, and not by the supervisor."""

import socket
from multiprocessing.connection import Connection

from aion_core.dev.messages import EmulatorTask


def emulator(connection: Connection, task: EmulatorTask) -> None:
    """Be the emulator's process."""
    from aion_core.dev.uncollected import collect_again

    from aion_core.dev.emulated import main  # isort: skip

    collect_again()
    main(connection, task)


def worker(listener: socket.socket, connection: Connection) -> None:
    """Be a worker's process."""
    from aion_core.dev.uncollected import collect_again

    from aion_core.dev.worker import main  # isort: skip

    collect_again()
    main(listener, connection)
