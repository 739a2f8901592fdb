"""Packages of the Lambda functions: content, size budgets, and reproducible builds."""

import ast
import asyncio
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from aion_core.engine.queues import WakeUp, body_of
from aion_tools.package.build import Build
from aion_tools.package.cache import cache
from aion_tools.package.trim import SERVICES
from aion_tools.programs import BuildError, find_uv, interpreter, machine_architecture, run
from aion_tools.shipped import shipped
from aion_tools.stack.stack import LocalStack
from scripts.package_check import ADK, CASES, MEGABYTE, Case, first_call, memory, modules, size
from scripts.package_load import load
from scripts.package_sizes import is_smaller
from scripts.packages import built
from tests.support.clock import ManualClock
from tests.support.conversation import StoreConversation, of
from tests.support.e2e import forked
from tests.support.e2e.runtime_emulator import LAMBDA_PYTHON, lambda_python
from tests.support.memory_cgroup import is_limiting, memory_cgroup
from tests.support.stores import dynamodb_store
from tests.tools.e2e.packages import checkout, file_states, package_here

ROOT = shipped()
MACHINES = {"x86_64": 62, "arm64": 183}
"""ELF names of Lambda's processors."""
# Allow fifteen minutes, because a test builds several packages if the cache is empty.
pytestmark = pytest.mark.timeout(900)
runs_here = pytest.mark.skipif(sys.platform != "linux", reason="the packages are made for Linux")
has_lambdas_python = pytest.mark.skipif(interpreter(LAMBDA_PYTHON) is None, reason=f"no Python {LAMBDA_PYTHON} here")


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("checkout"))


def run_build(folder: Path, function: str, target: Path) -> "subprocess.CompletedProcess[str]":
    # Share the package cache, so that the build finds the dependencies of other tests' builds.
    environ = {**os.environ, "AION_PACKAGE_CACHE": str(cache())}
    return forked.run("aion_tools.cli", "build", function, "--to", str(target), cwd=folder, env=environ, timeout=600)


# --- Budgets ---


# Check only the smallest package here, because CI runs `make package-check` for all packages and both processors.
SMALLEST = "sweep"


@runs_here
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=[pytest.mark.deep] * (case.name != SMALLEST)) for case in CASES],
)
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
    [pytest.param(case, id=case.name, marks=[pytest.mark.deep] * (case.name != SMALLEST)) for case in CASES],
)
def test_first_call_stays_within_memory_budget(case: Case, moto: LocalStack) -> None:
    result = memory(case, case.package(machine_architecture(), lambda_python()[1]), moto)
    assert result.holds, result


@pytest.mark.deep
@runs_here
@has_lambdas_python
async def test_sweep_of_backlog_runs_in_half_its_memory() -> None:
    """600 turns wait behind a queue, and the worker of one has died: the sweep has 128 MB instead of 256."""
    (case,) = (case for case in CASES if case.name == "sweep")
    package = case.package(machine_architecture(), lambda_python()[1])
    with LocalStack.start(ROOT / "template.yaml") as stack, memory_cgroup(128) as within:
        await backlog_of(stack, 600)
        assert is_limiting(within, sys.executable, 160), "the limit works"
        calls = f"assert [{SWEEP} for _ in range(4)] == [(1, 1), (0, 0), (0, 0), (0, 0)]"
        used = first_call(case, package, stack, calls, within=within)
        messages = await asyncio.to_thread(visible, stack)
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


def test_packages_of_functions_without_agents_contain_no_agent_framework() -> None:
    """Package agent frameworks only for functions that run agents."""
    task, push, sweep = (
        {path.name for path in package_here(name).code.iterdir()}
        for name in ("TaskFunction", "PushFunction", "SweepFunction")
    )
    assert task >= {"aion_core", "handlers", "examples", "aion.yaml", "a2a", "langgraph", "boto3"}
    assert not task & {"fastapi", "starlette", "mangum", "uvicorn", "moto", "aion_tools", "infra", "scripts", "tests"}
    assert push >= {"aion_core", "handlers", "a2a", "httpx", "aws_lambda_powertools"}
    assert not push & {"fastapi", "starlette", "mangum", "langgraph", "langchain_core", "examples", "aion.yaml"}
    assert sweep >= {"aion_core", "handlers", "a2a"}
    assert not sweep & {"fastapi", "starlette", "mangum", "langgraph", "langchain_core", "examples", "aion.yaml"}


@pytest.mark.deep
def test_adk_deployment_has_no_langgraph() -> None:
    """Package only the frameworks that the agents in aion.yaml import.

    `make package-check` builds this package too, and checks its loaded modules.
    """
    code = package_here("ApiFunction", [ROOT / ADK]).code
    names = {path.name for path in code.iterdir()}
    assert names >= {"aion_core", "handlers", "examples", "a2a", "google", "cryptography", "boto3"}
    assert (code / "google" / "adk" / "runners.py").is_file()
    assert not names & {"langgraph", "langchain_core", "langsmith"}


@pytest.mark.deep
def test_dependency_group_agents_of_repository_is_locked(tmp_path: Path) -> None:
    """Lock as `uv add --group agents cowsay` does."""
    project = checkout(tmp_path / "own")
    pyproject = project / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace("agents = []", 'agents = ["cowsay==6.0"]'))
    with pytest.raises(BuildError, match=r"uv\.lock does not match pyproject\.toml"):
        Build(project)
    run([find_uv(), "lock", "--quiet", "--project", str(project)])
    assert "cowsay" in {each["name"] for each in Build(project)._lock.wheels}


def test_package_is_for_processor_of_template() -> None:
    assert Build(ROOT).target == ("x86_64", LAMBDA_PYTHON)


@pytest.mark.parametrize(
    "architecture",
    [pytest.param(name, marks=[pytest.mark.deep] * (name != machine_architecture())) for name in MACHINES],
)
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
@has_lambdas_python
def test_packaged_modules_are_compiled_for_their_path_on_lambda() -> None:
    """Compile for /var/task, with unchecked .pyc files: Python does not compare them with their sources."""
    built = package_here("SweepFunction")
    for source in ("aion_core/errors.py", "google/protobuf/message.py", "typing_extensions.py"):
        compiled = (built.code / source).parent / "__pycache__" / f"{Path(source).stem}.cpython-313.pyc"
        content = compiled.read_bytes()
        assert struct.unpack_from("<I", content, 4) == (1,)
        assert f"/var/task/{source}".encode() in content
        assert str(ROOT).encode() not in content
        load(built, f"import importlib.util\nassert {content[:4]!r} == importlib.util.MAGIC_NUMBER")


@runs_here
def test_versions_and_entry_points_of_dependencies_are_readable_in_package() -> None:
    built = package_here("TaskFunction")
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
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "AwsClient":
                assert isinstance(node.args[0], ast.Constant), f"{file}:{node.lineno} does not name its service"
                asked.add(str(node.args[0].value))
    return asked


@runs_here
def test_only_used_aws_clients_are_packaged() -> None:
    services = used_services()
    assert {"dynamodb", "sqs", "s3", "kms"} <= services <= SERVICES
    made = f"import boto3\nfor service in {sorted(services | {'sts'})}: boto3.session.Session().client(service)"
    load(package_here("ApiFunction"), made)
    with pytest.raises(BuildError, match="Unknown service"):
        load(package_here("ApiFunction"), "import boto3\nboto3.client('ec2')")


# --- Repeated builds ---


@pytest.mark.deep
@pytest.mark.parametrize("function", ["ApiFunction", "SweepFunction"])
def test_rebuilt_package_has_same_bytes(function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Build a package in another cache folder, at another time: names, modes and bytes are equal."""
    first = package_here(function)
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path / "packages"))
    again = Build(ROOT, architecture=first.target.architecture, python=first.target.python)
    again.write(function, tmp_path / "again")
    assert file_states(tmp_path / "again") == file_states(first.code)


# --- Failing builds ---


@pytest.mark.parametrize(
    ("mend", "told"),
    [
        (("examples/trip/agent.py", "elsewhere/agent.py"), "the agent 'elsewhere/agent.py:graph' does not exist"),
        (("path: ", "way: "), "aion.agents.trip.path is missing"),
        (("aion:", "aion: ["), "aion.yaml is not valid YAML"),
    ],
)
def test_failed_build_reports_reason(copied: Path, tmp_path: Path, mend: tuple[str, str], told: str) -> None:
    config = copied / "aion.yaml"
    right = config.read_text()
    try:
        config.write_text(right.replace(*mend, 1))
        done = run_build(copied, "ApiFunction", tmp_path)
    finally:
        config.write_text(right)
    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_unknown_function_is_reported(copied: Path, tmp_path: Path) -> None:
    done = run_build(copied, "Nobody", tmp_path)
    assert done.returncode == 1
    assert "Nobody is not a function of aion" in done.stderr


@has_lambdas_python
def test_build_error_names_agent_file_with_syntax_error(copied: Path, tmp_path: Path) -> None:
    agent = copied / "examples" / "echo" / "agent.py"
    right = agent.read_text()
    try:
        agent.write_text(right + "def (\n")
        done = run_build(copied, "TaskFunction", tmp_path)
    finally:
        agent.write_text(right)
    assert done.returncode == 1
    assert "examples/echo/agent.py is not valid Python 3.13" in done.stderr
    assert "def (" in done.stderr, "and which line"
