"""`make package-check`: build the Lambda packages, check their size, loaded modules and memory, and measure their imports."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from aion_tools.package.functions import PLATFORMS
from aion_tools.package.package import Package
from aion_tools.programs import BuildError, UvMissing, interpreter, machine_architecture
from aion_tools.shipped import shipped
from aion_tools.stack.stack import LocalStack
from aion_tools.template.reader import TemplateError
from scripts.package_load import Loaded, load
from scripts.packages import built, runtimes_boto3

ROOT = shipped()
LANGGRAPH, ADK = Path("examples/echo/aion.yaml"), Path("examples/adk/aion.yaml")
"""Paths of an aion.yaml for each framework, relative to the project and to a package."""
MEGABYTE = 1_000_000
ROUNDS = 5


@dataclass(frozen=True)
class Case:
    """Case of the check: a function's package with the agents of some configs."""

    name: str
    function: str
    handler: str
    budget: int
    """Limit of the unpacked size in bytes."""
    most_modules: int
    """Maximum number of modules of other packages that the handler and the agents load: these take most of a cold start."""
    configs: tuple[Path, ...] = ()
    foreign: tuple[str, ...] = ()
    """Names of modules that the handler and the agents must not load."""
    most_memory: int = 0
    """Limit of the process's memory in its first call, in MB: well below the function's MemorySize."""

    def package(self, architecture: str, python: str | None = None) -> Package:
        """Return the function's package. Raises the errors of `Build`."""
        return built(self.function, architecture, python, tuple(ROOT / config for config in self.configs))


# Large modules that no function may load: the frameworks use them only for databases and Google Cloud.
_HEAVY = ("sqlalchemy", "grpc")
_SDKS_SERVER = ("a2a.client", "a2a.server.request_handlers")
# Modules that must not be loaded at start, because a first message of A2A v1.0 does not need them.
_LATE = ("a2a.compat.v0_3.types", "aion_core.push.delivery", "aion_core.loading.load_errors.missing_packages")
_NOT_LANGGRAPHS = (*_HEAVY, *_SDKS_SERVER, *_LATE, "google.adk", "cryptography", "langgraph.prebuilt")
_NOT_ADKS = (*_HEAVY, *_SDKS_SERVER, *_LATE, "langgraph", "langchain_core")
_NO_AGENTS = (*_HEAVY, "fastapi", "langgraph", "google.adk", "a2a.server", "pydantic", "cryptography")
CASES = (
    Case("api, LangGraph", "ApiFunction", "handlers.api", 100 * MEGABYTE, 1430, (LANGGRAPH,), _NOT_LANGGRAPHS, 150),
    Case("api, ADK", "ApiFunction", "handlers.api", 115 * MEGABYTE, 1420, (ADK,), _NOT_ADKS, 170),
    Case("api, both", "ApiFunction", "handlers.api", 150 * MEGABYTE, 1455, (LANGGRAPH, ADK), (), 150),
    Case("deliver_push", "PushFunction", "handlers.deliver_push", 48 * MEGABYTE, 620, (), _NO_AGENTS, 90),
    Case("sweep", "SweepFunction", "handlers.sweep", 25 * MEGABYTE, 540, (), _NO_AGENTS, 90),
)

# Statements whose time is the measure for the handlers' import times: boto3 with the clients of two services.
_BOTO3 = "import boto3\nfor service in ('dynamodb', 'sqs'): boto3.client(service)"
# Statements that load what the init phase loads: every agent of the config, with its framework. The first turn imports
# no further modules.
_AGENTS = """
from aion_core.bootstrap import build_telemetry
from aion_core.bootstrap.turns import build_turn_services
from aion_core.settings import Settings
settings = Settings.from_environ()
for agent in build_turn_services(settings, build_telemetry(settings)).agents.values(): agent.load()
"""


# Program of a first call: a handler's real call, on an emulated AWS without tasks.
_CONTEXT = """
class Context:
    function_name, memory_limit_in_mb, aws_request_id, function_version = "check", 256, "r-1", "1"
    invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:check"
    def get_remaining_time_in_millis(self): return 60_000
"""
_PUSH_EVENT = """
record = {"messageId": "m-1", "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:push",
          "body": '{"v": 1, "owner": "ann", "task_id": "t-1", "generation": 1}', "receiptHandle": "r", "attributes": {}}
assert handlers.deliver_push.handler({"Records": [record]}, Context()) == {"batchItemFailures": []}
"""
_SEND = """
import asyncio, httpx
async def send():
    transport = httpx.ASGITransport(handlers.api.app)
    message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=60) as http:
        answer = await http.post("/", json=call, headers={"A2A-Version": "1.0"})
    assert "result" in answer.json(), answer.text
asyncio.run(send())
"""
_CALLS = {
    "handlers.api": _SEND,
    "handlers.deliver_push": _PUSH_EVENT,
    "handlers.sweep": "assert handlers.sweep.handler({}, Context()) == {'found': 0, 'enqueued': 0}",
}


@dataclass(frozen=True)
class Result:
    """Result of one check, printed as a line of the table."""

    what: str
    measured: str
    budget: str
    holds: bool


def size(case: Case, package: Package) -> Result:
    """Compare the unpacked size of a package with its budget."""
    measured, budget = f"{package.size / MEGABYTE:.1f} MB", f"{case.budget / MEGABYTE:.0f} MB"
    return Result(
        f"{case.name}, {package.target.architecture}: unpacked", measured, budget, package.size <= case.budget
    )


def modules(case: Case, package: Package) -> Iterator[Result]:
    """Load a case's handler and agents. Check the number of loaded modules, and that no forbidden module is loaded."""
    statements = f"import {case.handler}{_AGENTS if case.configs else ''}"
    loaded = _loaded(package, statements, case.configs, modules=case.foreign)
    count, most = loaded.count, case.most_modules
    yield Result(f"{case.name}: loaded modules of others", f"{count}", f"{most}", count <= most)
    named = ", ".join(sorted(loaded.modules)) or "no foreign module"
    yield Result(f"{case.name}: loads", named, "no foreign module", not loaded.modules)


def memory(case: Case, package: Package, stack: LocalStack) -> Result:
    """Compare a function's memory in its first real call with its budget."""
    peak = first_call(case, package, stack, _CALLS[case.handler]).peak / MEGABYTE
    return Result(
        f"{case.name}: memory, first call", f"{peak:.0f} MB", f"{case.most_memory} MB", peak <= case.most_memory
    )


def first_call(case: Case, package: Package, stack: LocalStack, call: str, *, within: Sequence[str] = ()) -> Loaded:
    """Import a handler and its agents on the stack, and run the statements `call`, which may use a `Context()`.

    The command `within` runs the process. Raises BuildError if it fails.
    """
    statements = f"import {case.handler}{_AGENTS if case.configs else ''}{_CONTEXT}{call}"
    given = {
        **stack.environment(case.function),
        "AION_AUTH": "off",
        "AION_HTTP_ENTRYPOINTS": "",
        "AION_LOG_LEVEL": "ERROR",
    }
    return _loaded(package, statements, case.configs, given=given, within=within)


def ratios(packages: Sequence[tuple[Case, Package]]) -> Iterator[Result]:
    """Compare the import times of handlers with the import times of their largest dependencies.

    These are figures without a limit, because a busy machine changes them by a fifth: the limits are in modules.
    """
    by_name = {case.name: (case, package) for case, package in packages}
    case, push = by_name["deliver_push"]
    yield _ratio("deliver_push: import, to boto3 with two clients", push, f"import {case.handler}", _BOTO3)
    case, api = by_name["api, LangGraph"]
    yield _ratio("api: import, to langgraph.graph", api, f"import {case.handler}", "import langgraph.graph")
    what = "api: import and agents, to its largest dependencies"
    yield _ratio(
        what,
        api,
        f"import {case.handler}{_AGENTS}",
        f"import a2a.types, fastapi, langgraph.graph\n{_BOTO3}",
        case.configs,
    )


def _ratio(what: str, package: Package, statements: str, yardstick: str, configs: Sequence[Path] = ()) -> Result:
    def seconds(code: str) -> float:
        return _loaded(package, code, configs).seconds

    # Measure both programs in pairs, because the machine's load changes slowly. The first pair is a warm-up.
    pairs = [(seconds(statements), seconds(yardstick)) for _ in range(ROUNDS + 1)][1:]
    ratio = median(mine / theirs for mine, theirs in pairs)
    mine, theirs = (1000 * median(times) for times in zip(*pairs, strict=True))
    return Result(what, f"{ratio:.2f} ({mine:.0f} ms to {theirs:.0f} ms)", "no limit", holds=True)


def _loaded(
    package: Package, statements: str, configs: Sequence[Path] = (), modules: Sequence[str] = (), **options: Any
) -> Loaded:
    beside = (
        []
        if (package.code / "boto3").is_dir()
        else [runtimes_boto3(package.target.architecture, package.target.python)]
    )
    return load(
        package, statements, config=str(configs[0]) if configs else None, modules=modules, beside=beside, **options
    )


def results() -> Iterator[Result]:
    """Yield all results: sizes for both architectures, and loaded modules and times for this machine's architecture."""
    here = machine_architecture()
    local = []
    for architecture in PLATFORMS:
        for case in CASES:
            package = case.package(architecture)
            yield size(case, package)
            if package.warnings:
                raise BuildError(f"{case.name}: {package.warnings[0]}")
            if architecture == here:
                local.append((case, package))
    if sys.platform != "linux" or interpreter(local[0][1].target.python) is None:
        raise BuildError("loaded modules can be measured on Linux only")
    for case, package in local:
        yield from modules(case, package)
    with LocalStack.start(ROOT / "template.yaml") as stack:
        for case, package in local:
            yield memory(case, package, stack)
    yield from ratios(local)


def main() -> int:
    """Print the table of results. Return 1 if a check has failed."""
    kept = True
    try:
        for result in results():
            kept &= result.holds
            verdict = "" if result.holds else "  OVER"
            print(f"{result.what:<52}{result.measured:>28}{result.budget:>18}{verdict}", flush=True)
    except (BuildError, TemplateError, UvMissing) as error:
        print(f"package-check: {error}", file=sys.stderr)
        return 1
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
