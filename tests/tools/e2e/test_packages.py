"""Packages of the Lambda functions: content, size budgets, and reproducible builds."""

import ast
import marshal
import os
import struct
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from aion_tools.package.files import NORMALIZED, files_of, tidy
from aion_tools.package.packages import package, packages
from aion_tools.package.parts import SERVICES, link_parts
from aion_tools.package.plan import PackagePlan, plan
from aion_tools.package.zip_writer import ZipWriter

from aion_tools.package.cache import cache
from aion_tools.programs import BuildError, find_uv, interpreter
from aion_tools.shipped import shipped
from scripts.package_check import ADK, CASES, Case, modules, size
from scripts.package_load import load
from scripts.sam_local import machine_architecture
from tests.support.e2e import forked
from tests.support.e2e.runtime_emulator import LAMBDA_PYTHON, lambda_python
from tests.tools.e2e.packages import checkout, file_states, package_here

ROOT = shipped()
MACHINES = {"x86_64": 62, "arm64": 183}
"""ELF names of Lambda's processors."""
# Allow fifteen minutes, because a test builds several packages if the cache is empty.
pytestmark = pytest.mark.timeout(900)
runs_here = pytest.mark.skipif(sys.platform != "linux", reason="the packages are made for Linux")
has_lambdas_python = pytest.mark.skipif(interpreter(LAMBDA_PYTHON) is None, reason=f"no Python {LAMBDA_PYTHON} here")


def other_architecture() -> str:
    return next(name for name in MACHINES if name != machine_architecture())


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("checkout"))


def run_build(folder: Path, function: str, target: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    return forked.run(
        "aion_tools.cli", "build", function, "--to", str(target), cwd=folder, env={**os.environ, **environ}, timeout=600
    )


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


def test_lambda_package_over_budget_is_reported() -> None:
    sweep = Case("sweep", "SweepFunction", "handlers.sweep", 1_000_000, 100, foreign=("google.protobuf", "fastapi"))
    built = sweep.package(machine_architecture(), lambda_python()[1])
    assert not size(sweep, built).holds
    count, found = modules(sweep, built)
    assert not count.holds
    assert (found.holds, found.measured) == (False, "google.protobuf")


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


def test_function_packages_share_files_by_hard_links() -> None:
    """Store a file that two packages contain only once, by hard links."""
    push, sweep = package_here("PushFunction").code, package_here("SweepFunction").code
    for place in ("a2a/types/__init__.py", "google/protobuf/message.py", "aion_core/errors.py"):
        assert (push / place).samefile(sweep / place), place


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


def test_package_contains_project_files_and_dependency_group_agents(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Package the agent's modules and data files, and the dependency group `agents`, but no ignored folder."""
    project = checkout(tmp_path_factory.mktemp("own"))
    files = {
        "agent.py": "from langgraph.graph import StateGraph\nimport words\n",
        "words.py": "def late():\n    from bank.money import euros\n",
        "bank/money.py": "",
        "prompts/hello.txt": "Hello",
        "aion.yaml": "aion: {agents: {mine: {path: agent.py}}}",
    }
    for name, text in files.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    lock = project / "uv.lock"
    # Edit uv.lock as `uv add --group agents click` does, because the test has no network.
    groups = "[package.dev-dependencies]\n"
    lock.write_text(lock.read_text().replace(groups, groups + 'agents = [{ name = "click" }]\n'))
    pyproject = project / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace("agents = []", 'agents = ["click"]'))
    planned = plan("TaskFunction", folder=project)
    places = {place for place, _ in planned.files}
    assert set(files) <= places
    folders = {place.split("/")[0] for place in places if "/" in place}
    assert folders == {"aion", "aion_core", "handlers", "bank", "examples", "prompts"}
    assert "\nclick==" in planned.requirements


def test_package_is_for_processor_of_template(copied: Path) -> None:
    assert (plan("ApiFunction").architecture, plan("ApiFunction").python) == ("x86_64", LAMBDA_PYTHON)
    assert package("PushFunction").plan == plan("PushFunction", architecture="x86_64", python=LAMBDA_PYTHON)


@pytest.mark.parametrize("architecture", MACHINES)
def test_native_libraries_are_stripped_for_target_processor(architecture: str) -> None:
    libraries = [
        file for file in files_of(package("PushFunction", architecture=architecture).code) if ".so" in file.name
    ]
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


def test_package_includes_license_metadata(tmp_path: Path) -> None:
    legal = ["LICENSE", "LICENSE.txt", "NOTICE", "COPYING.LESSER", "licenses/LICENSE.md"]
    for name in (*legal, "METADATA", "RECORD", "WHEEL", "INSTALLER"):
        file = tmp_path / "a-1.0.dist-info" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    tidy(tmp_path)
    kept = {file.relative_to(tmp_path / "a-1.0.dist-info").as_posix() for file in files_of(tmp_path)}
    assert kept == {*legal, "METADATA"}


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


def test_package_contains_boto3_model_of_service_named_by_agent(tmp_path: Path) -> None:
    """Keep a boto3 service model if a file of the project names the service, maybe in another folder than the import."""
    texts = {
        "agent.py": "from botocore.session import Session\nmodel = 'textract'\n",
        "agents/bank.py": "import boto3\nmodels = boto3.client('bedrock-runtime')\n",
        "other/words.py": "kinds = ['ec2', 'iam']\n",
    }
    for place, text in texts.items():
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text(text)
    planned = plan("ApiFunction", architecture=machine_architecture(), python=lambda_python()[1])

    def models(target: Path, *places: str) -> set[str]:
        link_parts(replace(planned, files=tuple((place, tmp_path / place) for place in places)), target)
        return {path.name for path in (target / "botocore" / "data").iterdir() if path.is_dir()}

    without = models(tmp_path / "without", "other/words.py")
    assert without >= SERVICES
    assert models(tmp_path / "with", *texts) - without == {"bedrock-runtime", "textract", "ec2"}


# --- Reproducible builds ---


@pytest.mark.parametrize("function", [pytest.param("PushFunction", marks=pytest.mark.deep), "SweepFunction"])
def test_rebuilt_package_has_same_bytes(function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Build a package twice, in another cache folder, at another time, without other packages: the bytes are equal."""
    first, writer = package_here(function), ZipWriter()
    zipped = first.zip(writer)
    monkeypatch.setenv("AION_PACKAGE_CACHE", str(tmp_path))
    (again,) = packages([first.plan])
    assert again.code != first.code
    assert file_states(again.code) == file_states(first.code)
    assert again.zip(ZipWriter()).read_bytes() == zipped.read_bytes()
    with zipfile.ZipFile(zipped) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == sorted(archive.namelist())
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_compiled_file_bytes_are_reproducible(tmp_path: Path) -> None:
    """marshal's bytes depend on other references to a constant, so the build normalises compiled code."""
    code = compile("def told(name):\n    return name in {'llm', 'retriever', 'chat_model'}\n", "told.py", "exec")
    alone = marshal.dumps(code)
    (function,) = (each for each in code.co_consts if isinstance(each, CodeType))
    held = [each for each in function.co_consts if isinstance(each, frozenset)]
    assert held
    written, names = [alone, marshal.dumps(code)], dict[str, Any]()
    assert len(set(written)) == 2
    exec(NORMALIZED, names)  # noqa: S102 - our own
    (normal,) = {names["normalized"](each) for each in written}
    assert marshal.loads(normal) == code  # noqa: S302 - our own


def test_edit_of_agent_does_not_change_digest_of_dependencies(copied: Path) -> None:
    def digests() -> tuple[str, str]:
        planned = plan("TaskFunction", folder=copied)
        return planned.dependencies_digest, planned.digest

    before = digests()
    agent = copied / "examples" / "echo" / "agent.py"
    right = agent.read_text()
    try:
        agent.write_text(right + "# changed\n")
        after = digests()
    finally:
        agent.write_text(right)
    assert before[0] == after[0]
    assert before[1] != after[1]
    assert digests() == before


@pytest.mark.skipif(sys.version_info[:2] == (3, 13), reason="the Python that runs the tests is Lambda's own")
def test_build_without_lambda_python_is_reported(copied: Path, tmp_path: Path) -> None:
    """Build in two concurrent processes without Lambda's Python: both warn, and they share one build."""
    environ = {**os.environ, "UV": find_uv(), "AION_PACKAGE_CACHE": str(tmp_path / "packages")}
    environ.update(PATH="/nowhere", PYENV_ROOT="/nowhere", UV_PYTHON_INSTALL_DIR="/nowhere")
    command = [sys.executable, "-m", "aion_tools.cli", "build", "SweepFunction", "--to"]
    both = [
        subprocess.Popen([*command, str(tmp_path / name)], cwd=copied, env=environ, stdout=subprocess.PIPE, text=True)
        for name in ("one", "two")
    ]
    for process in both:
        told = process.communicate()[0]  # `sam build` hides the error output
        assert process.returncode == 0, told
        assert "no .pyc files" in told
        assert "uv python install 3.13" in told
    assert file_states(tmp_path / "one") == file_states(tmp_path / "two")
    assert not list((tmp_path / "one").rglob("*.pyc"))
    assert len(list((tmp_path / "packages").glob("SweepFunction-*/built"))) == 1


# --- Failing builds ---


@pytest.mark.parametrize(
    ("environ", "mend", "told"),
    [
        ({"AION_ARCHITECTURE": "riscv"}, None, "is not one of 'arm64', 'x86_64'"),
        ({"AION_PYTHON": "three"}, None, "set AION_PYTHON to, for example, 3.13"),
        ({}, ("examples/echo/agent.py", "elsewhere/agent.py"), "the agent 'elsewhere/agent.py:graph' does not exist"),
        ({}, ("examples/echo/agent.py", "../agent.py"), "the agent '../agent.py:graph' is outside of"),
        ({}, ("path: ", "way: "), "aion.agents.echo.path is missing"),
        ({}, ("aion:", "aion: ["), "aion.yaml is not valid YAML"),
    ],
)
def test_failed_build_reports_reason(
    copied: Path, tmp_path: Path, environ: dict[str, str], mend: tuple[str, str] | None, told: str
) -> None:
    (copied.parent / "agent.py").touch()  # the file exists, but outside of the project
    config = copied / "aion.yaml"
    right = config.read_text()
    try:
        if mend:
            config.write_text(right.replace(*mend, 1))
        done = run_build(copied, "ApiFunction", tmp_path, **environ)
    finally:
        config.write_text(right)
    assert done.returncode in (1, 2)
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_unknown_function_is_reported(copied: Path, tmp_path: Path) -> None:
    done = run_build(copied, "Nobody", tmp_path)
    assert done.returncode == 1
    assert "has no resource 'Nobody'" in done.stderr


def test_build_error_names_dependency_without_wheel() -> None:
    # Require docopt, because PyPI has only its source, and no wheel.
    docopt = "docopt==0.6.2 --hash=sha256:49b3a825280bd66b3aa83585ef59c4a8c82f2c8a522dbe754a8bc8db85c85491"
    planned = PackagePlan("TaskFunction", other_architecture(), LAMBDA_PYTHON, docopt, ())
    with pytest.raises(BuildError, match=r"Each dependency needs a wheel(.|\n)*docopt"):
        packages([planned])


def test_build_error_names_import_of_missing_module(copied: Path, tmp_path: Path) -> None:
    """Refuse to build an agent that imports a missing module: on AWS every turn would fail."""
    agent = copied / "examples" / "echo" / "agent.py"
    right = agent.read_text()
    shared = {"AION_ARCHITECTURE": machine_architecture(), "AION_PACKAGE_CACHE": str(cache())}
    try:
        agent.write_text(f"import moto.core\n{right}")
        done = run_build(copied, "TaskFunction", tmp_path, AION_PYTHON=lambda_python()[1], **shared)
    finally:
        agent.write_text(right)
    assert done.returncode == 1
    assert "examples/echo/agent.py, line 1, imports moto.core, but the package does not contain it:" in done.stderr
    assert "add the dependency with `aion add`" in done.stderr


@has_lambdas_python
def test_build_error_names_agent_file_with_syntax_error(copied: Path, tmp_path: Path) -> None:
    agent = copied / "examples" / "echo" / "agent.py"
    right = agent.read_text()
    try:
        agent.write_text(right + "def (\n")
        # Share the package cache, so that this build reuses the dependencies of other tests' builds.
        shared = {"AION_ARCHITECTURE": machine_architecture(), "AION_PACKAGE_CACHE": str(cache())}
        done = run_build(copied, "TaskFunction", tmp_path, **shared)
    finally:
        agent.write_text(right)
    assert done.returncode == 1
    assert "examples/echo/agent.py is not valid Python 3.13" in done.stderr
    assert "def (" in done.stderr, "and which line"
