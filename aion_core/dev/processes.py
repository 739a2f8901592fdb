"""Entry points of the processes. They import their code themselves, to keep the supervisor small."""

import socket
from multiprocessing.connection import Connection

from aion_core.dev.messages import EmulatorTask


def emulator(connection: Connection, task: EmulatorTask) -> None:
    """Run the emulator process."""
    from aion_core.dev.uncollected import collect_again

    from aion_core.dev.emulated import main  # isort: skip

    collect_again()
    main(connection, task)


def worker(listener: socket.socket, connection: Connection) -> None:
    """Run a worker process."""
    from aion_core.dev.uncollected import collect_again

    from aion_core.dev.worker import main  # isort: skip

    collect_again()
    main(listener, connection)
