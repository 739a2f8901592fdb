import asyncio
from collections.abc import AsyncIterator

import pytest

from aion_core.lambda_runtime.runtime_api import ErrorReport, RuntimeApi, RuntimeApiError
from tests.support.fake_runtime_api import ARN, FakeRuntimeApi
from tests.support.rows import each_row


@pytest.fixture
async def fake() -> AsyncIterator[FakeRuntimeApi]:
    async with FakeRuntimeApi() as fake:
        yield fake


async def test_runtime_api_next_returns_invocation(fake: FakeRuntimeApi) -> None:
    fake.invoke(
        {"key": "Grüße"},
        headers={"Lambda-Runtime-Invocation-Id": "attempt-1", "Lambda-Runtime-Aws-Tenant-Id": "tenant-1"},
    )
    invocation = await RuntimeApi(fake.address).next()
    assert invocation.request_id == "invocation-1"
    assert invocation.payload == b'{"key": "Gr\\u00fc\\u00dfe"}'
    assert invocation.function_arn == ARN
    assert invocation.trace_id == "Root=1-67e5d9a1-invocation-1"
    assert invocation.tenant_id == "tenant-1"
    assert invocation.invocation_id == "attempt-1"
    assert 890 < invocation.seconds_left() <= 900


async def test_event_of_six_megabytes_is_read(fake: FakeRuntimeApi) -> None:
    payload = b'"' + b"x" * 6 * 1024 * 1024 + b'"'
    fake.invoke(None, payload=payload)
    assert (await RuntimeApi(fake.address).next()).payload == payload


async def test_invocation_error_is_posted_with_type(fake: FakeRuntimeApi) -> None:
    invoked = fake.invoke({})
    api = RuntimeApi(fake.address)
    await api.refuse(await api.next(), ErrorReport("Runtime.NotAnHttpEvent", "refused"))
    answer = await invoked.answered()
    assert answer.raw == b'{"errorType": "Runtime.NotAnHttpEvent", "errorMessage": "refused", "stackTrace": []}'
    assert answer.headers["content-type"] == "application/vnd.aws.lambda.error+json"
    assert answer.headers["lambda-runtime-function-error-type"] == "Runtime.NotAnHttpEvent"


async def test_second_error_report_for_one_invocation_raises(fake: FakeRuntimeApi) -> None:
    fake.invoke({})
    api = RuntimeApi(fake.address)
    invocation = await api.next()
    await api.refuse(invocation, ErrorReport("Runtime.NotAnHttpEvent", "refused"))
    with pytest.raises(RuntimeApiError, match="403"):
        await api.refuse(invocation, ErrorReport("Runtime.NotAnHttpEvent", "refused"))


async def test_request_id_is_escaped_in_path(fake: FakeRuntimeApi) -> None:
    fake.invoke({}, headers={"Lambda-Runtime-Aws-Request-Id": "a/../b c"})
    api = RuntimeApi(fake.address)
    with pytest.raises(RuntimeApiError):
        await api.refuse(await api.next(), ErrorReport("Runtime.NotAnHttpEvent", "refused"))
    assert "a%2F..%2Fb%20c error rejected" in fake.journal


@each_row(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
        b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_invalid_runtime_api_response_is_error(answer: bytes) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        with pytest.raises(RuntimeApiError):
            await RuntimeApi(f"{host}:{port}").next()
