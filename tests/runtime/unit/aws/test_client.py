"""boto3 clients: one for each service and process."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from aion_core.aws import client
from aion_core.aws.client import AwsClient, client_of
from aion_core.bootstrap.stores import build_resources
from aion_core.clock import SystemClock
from aion_core.errors import StoreUnavailable
from aion_core.settings import Settings

THREADS = 16


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.setenv(name, "eu-west-1")
    # Make the cached clients of other tests unusable for this test.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9/test-client")
    client._client.cache_clear()
    client._session.cache_clear()


def test_threads_share_one_client_of_service() -> None:
    """The first sweep of an environment calls DynamoDB from 16 threads at once."""
    together = Barrier(THREADS)

    def made(number: int) -> Any:
        together.wait()
        return client_of(("dynamodb", "sqs")[number % 2])

    with ThreadPoolExecutor(THREADS) as executor:
        clients = list(executor.map(made, range(THREADS)))
    assert len({id(each) for each in clients}) == 2
    assert client._session.cache_info().misses == 1, "a session reads boto3's data files again"


@pytest.mark.parametrize("change", [("AWS_DEFAULT_REGION", "us-east-1"), ("AWS_ENDPOINT_URL", "http://127.0.0.1:8")])
def test_client_is_made_again_for_other_environment(monkeypatch: pytest.MonkeyPatch, change: tuple[str, str]) -> None:
    first = client_of("sqs")
    assert client_of("sqs") is first
    monkeypatch.setenv(*change)
    assert client_of("sqs") is not first


def test_client_is_made_again_for_other_time_limit() -> None:
    assert client_of("sqs", timeout=1.0).meta.config.read_timeout == 1.0
    assert client_of("sqs", timeout=9.0).meta.config.read_timeout == 9.0


@pytest.mark.parametrize("on_lambda", [True, False])
def test_init_phase_makes_clients_of_dynamodb_and_sqs(monkeypatch: pytest.MonkeyPatch, on_lambda: bool) -> None:
    names = {"AWS_LAMBDA_FUNCTION_NAME": "sweep"} if on_lambda else {}
    for name, value in {"AION_STORE": "dynamodb", "AION_TABLE": "T", "AION_BUCKET": "b", **names}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AION_TASK_QUEUE_URL", "http://127.0.0.1:9/queue")
    build_resources(Settings.from_environ(), SystemClock())
    assert client._client.cache_info().misses == (2 if on_lambda else 0)


async def test_first_call_raises_error_of_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with ThreadPoolExecutor(1) as executor:
        calls = AwsClient("sqs", executor)
        calls.open()
        with pytest.raises(StoreUnavailable, match="NoRegion"):
            await calls("list_queues")
