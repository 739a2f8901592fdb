"""Check of `aion deploy`: the classes in the state of waiting tasks against a project's code, on an emulated stack."""

import asyncio
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aion_core.aws.dynamodb_json import encoded_item
from aion_core.engine.records import Head
from aion_core.engine.task.head import head_item
from aion_core.protocol.types import TaskState
from aion_core.table import keys
from aion_core.table.item import Item
from aion_core.table.keys import ContextKey, TaskKey
from aion_tools.cli.checks import CheckResult, waiting_tasks
from aion_tools.cli.checks.waiting_tasks import check_waiting_tasks
from aion_tools.deploy import aws, cloudformation
from aion_tools.deploy.cloudformation import CloudFormationStack
from aion_tools.stack.stack import LocalStack
from tests.support import databases, operating
from tests.support.clock import ManualClock
from tests.support.e2e import forked
from tests.support.savers import DynamoDBSavers
from tests.support.shop import GRAPH, HEAD, MODELS, Shop, importing, state, waiting

CONFIG = "aion: {agents: {test: {path: shop_agent.py:graph}}}\n"
NEEDED = "It needs dynamodb:Scan of the index by_context, dynamodb:Query, and s3:GetObject."


@pytest.fixture(scope="module")
def registered(stack: LocalStack) -> CloudFormationStack:
    with pytest.MonkeyPatch.context() as environ:
        for name, value in operating.environ_of(stack).items():
            environ.setenv(name, value)
        found = cloudformation.find(operating.registered(stack, "waiting"))
    assert found is not None
    return found


@pytest.fixture(autouse=True)
def emptied(stack: LocalStack, monkeypatch: pytest.MonkeyPatch) -> None:
    databases.empty(stack)
    for name, value in operating.environ_of(stack).items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def savers(stack: LocalStack, clock: ManualClock) -> DynamoDBSavers:
    return DynamoDBSavers(stack, clock)


@pytest.fixture
def shop(savers: DynamoDBSavers, clock: ManualClock) -> Iterator[Shop]:
    shop = Shop(savers, clock)
    yield shop
    shop.close()


@pytest.fixture(autouse=True)
def agents_load_in_forked_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the process that loads the agents from one that has imported LangGraph."""

    def run(command: Sequence[Any], *, input: bytes, env: Mapping[str, str], **_: Any) -> None:  # noqa: A002
        done = forked.run(command[3], *map(str, command[4:]), env=env, text=input.decode())
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, command, stderr=done.stderr.encode())

    monkeypatch.setattr(
        waiting_tasks, "subprocess", SimpleNamespace(run=run, SubprocessError=subprocess.SubprocessError)
    )


class Project:
    """Folder with the next version of the shop."""

    def __init__(self, folder: Path, stack: CloudFormationStack) -> None:
        self._folder, self._stack = folder, stack

    async def check(self, agent: str, config: str = CONFIG, **modules: str) -> tuple[str, list[CheckResult]]:
        for name, source in {**modules, "shop_agent": agent}.items():
            (self._folder / f"{name}.py").write_text(HEAD + source)
        (self._folder / "aion.yaml").write_text(config)
        return await asyncio.to_thread(check_waiting_tasks, self._stack, self._folder / "aion.yaml")


@pytest.fixture
def project(tmp_path: Path, registered: CloudFormationStack) -> Project:
    return Project(tmp_path, registered)


async def three_wait(shop: Shop, graph: str = GRAPH) -> None:
    await waiting(shop, graph)
    for number in range(2):
        assert state(await shop.says("hi", message_id=f"m-2-{number}")) == "INPUT_REQUIRED"


async def test_moved_class_is_named_with_its_waiting_tasks(shop: Shop, project: Project) -> None:
    await three_wait(shop)
    done = await shop.says("yes", message_id="m-3", taskId=(await shop.says("hi", message_id="m-4"))["id"])
    assert state(done) == "COMPLETED", "a task that has ended does not count"
    compared, (lost,) = await project.check(importing("shopping"), shopping=f"print('a line')\n{MODELS}")
    assert compared == "3 read, and this version lacks 1 class of their state"
    assert lost.message == (
        "3 tasks of test wait for an answer with shop_models.Order in the state, which this version's state does not have. "
        "An answer fails the task."
    )
    assert lost.next_step == (
        "Keep an alias in the module shop_models until no stored state has the class: `from shopping import Order`."
    )
    assert await project.check(importing("shopping"), shop_models="from shopping import Order") == ("3 read", [])


INNER = """
class State(TypedDict):
    messages: Annotated[list, add_messages]

class Inner(State):
    order: Order | None

def take(state):
    return {"order": Order(item="lamp", count=3)}

def ask(state):
    return {"messages": [("ai", interrupt("Confirm?"))]}

inner = StateGraph(Inner).add_node("take", take).add_node("ask", ask).add_edge(START, "take").add_edge("take", "ask")
outer = StateGraph(State).add_node("inner", inner.compile()).add_edge(START, "inner").compile()
graph = StateGraph(State).add_node("outer", outer).add_edge(START, "outer").compile()
"""


@pytest.mark.parametrize(
    "graph",
    [
        pytest.param(INNER, id="in a subgraph"),
        pytest.param(
            GRAPH.replace('item="lamp"', "item=str([*range(50_000)])").replace("state['order']!r", "1"), id="in a blob"
        ),
    ],
)
@pytest.mark.deep
async def test_moved_class_is_found_wherever_it_is_stored(shop: Shop, project: Project, graph: str) -> None:
    await waiting(shop, graph)
    compared, warnings = await project.check(importing("shopping", graph), shopping=MODELS)
    assert (compared, len(warnings)) == ("1 read, and this version lacks 1 class of their state", 1)
    assert warnings[0].message.startswith("1 task of test waits for an answer with shop_models.Order in the state")
    without = graph.replace("    order: Order | None\n", "    other: str\n").replace("Order(", "dict(")
    assert await project.check(without) == ("1 read", []), "the channel was removed with the class"


@pytest.mark.deep
async def test_interrupt_of_moved_class_is_named(shop: Shop, project: Project) -> None:
    graph = GRAPH.replace("interrupt('Confirm?')", "interrupt(Order(item='lamp', count=1)).__class__").replace(
        '{"order": Order(item="lamp", count=3)}', "{}"
    )
    await waiting(shop, graph)
    _, warnings = await project.check(importing("shopping", graph), shopping=MODELS)
    assert ["with shop_models.Order in the state" in warning.message for warning in warnings] == [True]


@pytest.mark.deep
async def test_classes_of_factory_must_be_importable_only(shop: Shop, project: Project) -> None:
    await waiting(shop)
    factory = f"{GRAPH}\nmade = graph\ndef graph(config): return made\n"
    assert await project.check(importing("shop_models", factory), shop_models=MODELS) == ("1 read", [])
    (lost,) = (await project.check(importing("shopping", factory), shopping=MODELS, shop_models=""))[1]
    assert "shop_models.Order" in lost.message


@pytest.mark.deep
async def test_generated_module_name_of_function_is_known(shop: Shop, project: Project) -> None:
    """A file without a module name of its own has one with a hash of its path, which differs on this machine."""
    generated = 'Order.__module__ = "aion_agent_shop-agent_0123456789ab"'
    shop.deploy(f"{MODELS}{generated}\n{GRAPH}")
    assert state(await shop.says("hi", message_id="m-1")) == "INPUT_REQUIRED"
    config = CONFIG.replace("shop_agent.py", "shop-agent.py")
    assert await project.check("", config, **{"shop-agent": MODELS + GRAPH}) == ("1 read", [])
    renamed = f"{MODELS}{GRAPH}".replace("Order", "Purchase")
    (lost,) = (await project.check("", config, **{"shop-agent": renamed}))[1]
    assert "aion_agent_shop-agent_0123456789ab.Order" in lost.message


async def test_tasks_of_removed_agent_are_not_compared(shop: Shop, project: Project) -> None:
    await waiting(shop)
    config = CONFIG.replace("test:", "other:")
    assert await project.check(importing("shopping"), config, shopping=MODELS) == ("1 read", [])


async def test_agents_that_cannot_be_loaded_are_named(
    shop: Shop, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_tasks, "subprocess", subprocess)  # run the command itself, without the fork
    await waiting(shop)
    compared, warnings = await project.check("import nothing_of_this_name")
    assert warnings == []
    assert "not compared with this version's code: the agents could not be loaded in another process: " in compared
    assert "nothing_of_this_name" in compared


async def test_table_without_waiting_tasks_loads_no_agent(shop: Shop, project: Project) -> None:
    assert await project.check("raise SystemExit") == ("none", [])
    await waiting(shop, GRAPH.replace('{"order": Order(item="lamp", count=3)}', "{}"))
    assert await project.check("raise SystemExit") == ("1 read", []), "their state has no class of the agent's code"


@pytest.mark.parametrize("service", ["CLOUDFORMATION", pytest.param("S3", marks=pytest.mark.deep)])
async def test_unreadable_deployment_is_one_sentence(
    shop: Shop, project: Project, monkeypatch: pytest.MonkeyPatch, service: str
) -> None:
    await waiting(shop, GRAPH.replace('item="lamp"', "item=str([*range(50_000)])").replace("state['order']!r", "1"))
    with operating.refusing_aws("AccessDeniedException") as url:
        monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", url)
        compared, warnings = await project.check(importing("shopping"), shopping=MODELS)
    assert warnings == []
    assert compared.startswith("their state was not compared with this version's code (")
    assert compared.endswith(f"AccessDeniedException). {NEEDED}")


# ── The limit ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def store_tasks(savers: DynamoDBSavers, clock: ManualClock, number: int) -> None:
    """Store heads of tasks that wait for an answer, each with a long attribute: together they have several pages."""
    puts = []
    for each in range(number):
        task, context = TaskKey("owner", f"t-{each}"), ContextKey("owner", "test", f"c-{each}")
        head = Head(task, context, TaskState.TASK_STATE_INPUT_REQUIRED, clock.now(), 1, 1)
        item: Item = {
            **head_item(head),
            "expires": int(clock.now().timestamp()) + 1000,
            "v": 3,
            "filler": "x" * 100_000,
        }
        key = keys.head_key(task)
        puts.append({"PutRequest": {"Item": encoded_item({**item, "pk": key.partition, "sk": key.sort})}})
    for start in range(0, number, 25):
        savers.client.batch_write_item(RequestItems={savers.table_name: puts[start : start + 25]})


@pytest.mark.deep
async def test_newest_waiting_tasks_are_compared_up_to_limit(
    shop: Shop, project: Project, savers: DynamoDBSavers, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_tasks, "LIMIT", 30)
    await three_wait(shop)
    store_tasks(savers, clock, 28)
    scans: list[object] = []
    aws.client_of("dynamodb").meta.events.register("before-call.dynamodb.Scan", lambda **request: scans.append(request))
    compared, (lost,) = await project.check(importing("shopping"), shopping=MODELS)
    assert compared == "the newest 30 of 31 read, and this version lacks 1 class of their state"
    assert lost.message.startswith("2 tasks of test wait"), "the oldest of three was not read"
    assert len(scans) > 2, "the index has several pages"
