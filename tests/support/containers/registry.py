"""Docker engine that keeps the images pushed to ECR, in place of AWS's registry."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer

from tests.support.containers.engine import DockerEngine

LOGIN = b'{"Status": "Login Succeeded"}'
PUSHED = b'{"status": "kept here"}\n'


@contextmanager
def engine_without_registry(engine: DockerEngine) -> Iterator[str]:
    """Serve the engine's API until the block ends; yield its address. Sign-ins and pushes succeed, and go nowhere.

    A pushed image keeps its name of ECR in the engine, so that the engine can run it by this name.
    """

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            head = b"".join(iter(lambda: self.rfile.readline().strip(b"\r\n") + b"\r\n", b"\r\n"))
            path = head.split()[1].partition(b"?")[0]
            if path.endswith((b"/auth", b"/push")):
                self.answer(head, LOGIN if path.endswith(b"/auth") else PUSHED)
            else:
                self.pass_on(head)

        def answer(self, head: bytes, body: bytes) -> None:
            lengths = [line.split(b":")[1] for line in head.lower().splitlines() if line.startswith(b"content-length:")]
            self.rfile.read(int(lengths[0]) if lengths else 0)
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n")
            self.wfile.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)

        def pass_on(self, head: bytes) -> None:
            with socket.socket(socket.AF_UNIX) as upstream:
                upstream.connect(engine.host.removeprefix("unix://"))
                # The connection ends with the response, so the rest needs no parsing.
                kept = [line for line in head.splitlines() if not line.lower().startswith(b"connection:")]
                upstream.sendall(b"\r\n".join([*kept, b"Connection: close", b"", b""]))
                threading.Thread(target=self.send_body, args=(upstream,), daemon=True).start()
                with suppress(ConnectionError):  # the engine resets a connection whose body it has not read to its end
                    while piece := upstream.recv(1 << 16):
                        self.wfile.write(piece)

        def send_body(self, upstream: socket.socket) -> None:
            with suppress(OSError):  # the response has ended
                while piece := self.rfile.read1(1 << 16):
                    upstream.sendall(piece)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"tcp://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
