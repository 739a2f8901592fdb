"""Trace collector on loopback: a real HTTP server for OTLP."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.util._once import Once


@dataclass
class Collector:
    """Traces that the collector has received."""

    endpoint: str = ""
    raw: list[bytes] = field(default_factory=list)
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)

    @property
    def spans(self) -> list[Span]:
        """Return the spans in their order of arrival."""
        return [span for _, span in self._scoped()]

    def spans_named(self, name: str) -> list[Span]:
        """Return the spans with this name."""
        return [span for span in self.spans if span.name == name]

    def named(self, name: str) -> Span:
        """Return the only span with this name."""
        (found,) = self.spans_named(name)
        return found

    def of(self, scope: str) -> list[Span]:
        """Return the spans of the instrumentation scopes whose names begin with this prefix."""
        return [span for name, span in self._scoped() if name.startswith(scope)]

    @property
    def services(self) -> set[str]:
        """Return the service names of the resources."""
        resources = [each.resource for request in self.requests for each in request.resource_spans]
        return {pair.value.string_value for each in resources for pair in each.attributes if pair.key == "service.name"}

    @property
    def text(self) -> str:
        """Return everything received as one text to search: the raw bytes and the parsed content."""
        return "\n".join([*(raw.decode("latin-1") for raw in self.raw), *map(str, self.requests)])

    def _scoped(self) -> Iterator[tuple[str, Span]]:
        for request in self.requests:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        yield scope.scope.name, span


def attributes(span: Span) -> dict[str, str | int]:
    """Return a span's attributes."""
    return {
        pair.key: pair.value.string_value if pair.value.HasField("string_value") else pair.value.int_value
        for pair in span.attributes
    }


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a trace collector until the block ends; yield it."""
    collector = Collector()

    class CollectorHandler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            collector.raw.append(body)
            collector.requests.append(ExportTraceServiceRequest.FromString(body))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), CollectorHandler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    collector.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def exported_from_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Yield a collector for this process's traces; restore the process's only tracer provider afterwards."""
    with collecting() as collector:
        # Set this variable, because it has precedence over OTEL_EXPORTER_OTLP_ENDPOINT, which the template sets.
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.endpoint}/v1/traces")
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
        monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
        yield collector
        made = trace.get_tracer_provider()
        assert isinstance(made, TracerProvider)
        made.shutdown()
