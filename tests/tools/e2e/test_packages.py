"""Packages of the Lambda functions: content, size budgets, and reproducible builds."""

import ast
import asyncio
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aion_core.engine.queues import WakeUp, body_of
from aion_tools.package.trim import SERVICES
from aion_tools.programs import BuildError, interpreter, machine_architecture
from aion_tools.shipped import shipped
from aion_tools.stack.stack import LocalStack
from scripts.package_check import CASES, LANGGRAPH, MEGABYTE, Case, first_call, memory, modules, size
from scripts.package_load import load
from scripts.package_sizes import is_smaller
from scripts.packages import built
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation, of
from tests.support.e2e.runtime_emulator import LAMBDA_PYTHON, lambda_python
from tests.support.memory_cgroup import is_limiting, memory_cgroup
from tests.support.stores import dynamodb_store
from tests.tools.e2e.packages import package_here

ROOT = shipped()
MACHINES = {"x86_64": 62, "arm64": 183}
"""ELF names of Lambda's processors."""
# Allow fifteen minutes, because a test builds several packages if the cache is empty.
pytestmark = pytest.mark.timeout(900)
runs_here = pytest.mark.skipif(sys.platform != "linux", reason="the packages are made for Linux")
has_lambdas_python = pytest.mark.skipif(interpreter(LAMBDA_PYTHON) is None, reason=f"no Python {LAMBDA_PYTHON} here")


# --- Budgets ---


# Call only one package here, because CI runs `make package-check` for all packages and both processors.
ANSWERING = "api, LangGraph"


@runs_here
@pytest.mark.deep
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lambda_package_stays_within_budgets(case: Case) -> None:
    """Check size and loaded modules; expect .pyc files only if Lambda's Python version is installed."""
    built = case.package(machine_architecture(), lambda_python()[1])
    kept = size(case, built)
    assert kept.holds, kept
    for result in modules(case, built):
        assert result.holds, result


@runs_here
@has_lambdas_python
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[pytest.mark.deep] * (case.name != ANSWERING)) for case in CASES],
)
def test_first_call_stays_within_memory_budget(case: Case, moto: LocalStack) -> None:
    result = memory(case, case.package(machine_architecture(), lambda_python()[1]), moto)
    assert result.holds, result


@pytest.mark.deep
@runs_here
@has_lambdas_python
async def test_sweep_of_backlog_runs_in_half_its_memory(record_property: Callable[[str, object], None]) -> None:
    """600 turns wait behind a queue, and the worker of one has died: the sweep has 128 MB instead of 256."""
    (case,) = (case for case in CASES if case.name == "sweep")
    package = case.package(machine_architecture(), lambda_python()[1])
    with LocalStack.start(ROOT / "template.yaml") as stack, memory_cgroup(128) as within:
        await backlog_of(stack, 600)
        assert is_limiting(within, sys.executable, 160), "the limit works"
        calls = f"assert [{SWEEP} for _ in range(4)] == [(1, 1), (0, 0), (0, 0), (0, 0)]"
        used = first_call(case, package, stack, calls, within=within)
        messages = await asyncio.to_thread(visible, stack)
    figures = f"peak {used.peak / MEGABYTE:.0f} MB of 128, dead lease found by the first of four sweeps"
    record_property("figures", f"SweepFunction, 600 waiting tasks: {figures}, {messages} messages afterwards")
    assert used.peak < 128 * MEGABYTE
    assert messages == 601


SWEEP = "tuple(handlers.sweep.handler({}, Context()).values())"


async def backlog_of(stack: LocalStack, count: int) -> None:
    """Let the turns of so many contexts wait for more than a lease's term, with their messages, and let a holder die."""
    clock = ManualClock()
    clock.move(-120)
    chat = StoreConversation(dynamodb_store(stack, clock), clock)
    queue = stack.client("sqs"), stack.physical_id("TaskQueue")
    await of(chat, context_id="dead").starts("m-dead")
    for number in range(count):
        waiting = of(chat, context_id=f"c-{number}")
        await waiting.waits(f"m-{number}")
        body = body_of(WakeUp(waiting.context))
        await asyncio.to_thread(queue[0].send_message, QueueUrl=queue[1], MessageBody=body)


def visible(stack: LocalStack) -> int:
    """Return the number of messages that wait in the task queue."""
    name = "ApproximateNumberOfMessages"
    answer = stack.client("sqs").get_queue_attributes(QueueUrl=stack.physical_id("TaskQueue"), AttributeNames=[name])
    return int(answer["Attributes"][name])


def test_lambda_package_over_budget_is_reported() -> None:
    sweep = Case("sweep", "SweepFunction", "handlers.sweep", 1_000_000, 100, foreign=("google.protobuf", "fastapi"))
    built = sweep.package(machine_architecture(), lambda_python()[1])
    assert not size(sweep, built).holds
    count, found = modules(sweep, built)
    assert not count.holds
    assert (found.holds, found.measured) == (False, "google.protobuf")


@pytest.mark.deep
@runs_here
@has_lambdas_python
def test_package_is_no_larger_than_installation_by_uv(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`make package-sizes` compares five further projects, which are larger."""
    assert is_smaller("executor", tmp_path)
    printed = capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()[1:]] == ["cold", "warm", "uv"]


# --- Content ---


@pytest.mark.deep
@pytest.mark.parametrize("architecture", MACHINES)
def test_native_libraries_are_stripped_for_target_processor(architecture: str) -> None:
    libraries = [file for file in built("PushFunction", architecture).code.rglob("*.so*") if file.is_file()]
    assert len(libraries) > 3
    for library in libraries:
        content = library.read_bytes()
        machine, segments, sections = struct.unpack_from("<H12xQQ", content, 18)
        size, count = struct.unpack_from("<HH", content, 54)
        ends = [sum(struct.unpack_from("<Q16xQ", content, segments + n * size + 8)) for n in range(count)]
        assert machine == MACHINES[architecture], library
        assert (sections, max(ends)) == (0, len(content)), library


@runs_here
def test_versions_and_entry_points_of_dependencies_are_readable_in_package() -> None:
    built = package_here("ApiFunction", [ROOT / LANGGRAPH])
    assert not list(built.code.glob("*.dist-info/RECORD"))
    load(
        built,
        "from importlib.metadata import entry_points, version\n"
        "assert version('a2a-sdk').startswith('1.3.') and version('langgraph') and version('boto3')\n"
        "assert entry_points(group='opentelemetry_context')",
    )


# --- boto3 ---


def used_services() -> set[str]:
    """Return the AWS services that aion_core creates clients of, read from its source."""
    asked = set()
    for file in (ROOT / "aion_core").rglob("*.py"):
        if "AwsClient(" not in (text := file.read_text()):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "AwsClient":
                assert isinstance(node.args[0], ast.Constant), f"{file}:{node.lineno} does not name its service"
                asked.add(str(node.args[0].value))
    return asked


def test_used_aws_clients_are_kept_in_packages() -> None:
    assert {"dynamodb", "sqs", "s3", "kms"} <= used_services() <= SERVICES


@pytest.mark.deep
@runs_here
def test_only_used_aws_clients_are_packaged() -> None:
    made = f"import boto3\nfor service in {[*sorted(used_services()), 'sts', 'ec2']}: boto3.session.Session().client(service)"
    with pytest.raises(BuildError, match="Unknown service: 'ec2'"):
        load(package_here("ApiFunction", [ROOT / LANGGRAPH]), made)
