"""Deployments that move, rename or change a class while its objects are stored: a turn fails and names it, or restores it."""

import logging
from collections.abc import Iterator

import pytest

from aion_core.auth.principal import ANONYMOUS
from aion_core.table import keys
from aion_core.table.keys import ContextKey
from tests.support.clock import ManualClock
from tests.support.databases import Stack
from tests.support.savers import DynamoDBSavers, Savers, memory_savers
from tests.support.shop import GRAPH, MODELS, Shop, importing, state, text, waiting

pytestmark = pytest.mark.long


@pytest.fixture
def savers(adapter: Stack | None, clock: ManualClock) -> Savers:
    return DynamoDBSavers(adapter, clock) if adapter else memory_savers(clock)


@pytest.fixture
def shop(savers: Savers, clock: ManualClock) -> Iterator[Shop]:
    shop = Shop(savers, clock)
    yield shop
    shop.close()


@pytest.mark.each_database
async def test_answer_fails_and_names_moved_class(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    task = await waiting(shop)
    shop.deploy(importing("shopping"), shopping=MODELS)
    with caplog.at_level(logging.ERROR):
        failed = await shop.says("yes", message_id="m-2", taskId=task["id"])
    assert (state(failed), text(failed)) == (
        "FAILED",
        "The stored state has shop_models.Order, which the state of this version of the agent does not have (moved or renamed?). "
        "Begin a new conversation, without contextId: this one continues only after a deployment that can read its state.",
    )
    assert "`from shopping import Order`" in caplog.text, "the log has the remedy"
    assert "lamp" not in caplog.text

    again = await shop.says("hi", message_id="m-3", contextId=task["contextId"])
    assert (state(again), text(again)) == ("FAILED", text(failed)), "each message of the conversation fails"
    other = await shop.says("hi", message_id="m-4")
    assert state(other) == "INPUT_REQUIRED", "a new conversation works"

    shop.deploy(importing("shopping"), shopping=MODELS, shop_models="from shopping import Order")
    later = await shop.says("hi", message_id="m-5", contextId=task["contextId"])
    assert state(later) == "INPUT_REQUIRED", "the conversation continues after a deployment with an alias"
    done = await shop.says("yes", message_id="m-6", taskId=later["id"])
    assert (state(done), text(done)) == ("COMPLETED", "yes: Order(item='lamp', count=3)")


@pytest.mark.each_database
async def test_answer_is_used_with_alias_of_moved_class(shop: Shop) -> None:
    task = await waiting(shop)
    shop.deploy(importing("shopping"), shopping=MODELS, shop_models="from shopping import Order")
    done = await shop.says("yes", message_id="m-2", taskId=task["id"])
    assert (state(done), text(done)) == ("COMPLETED", "yes: Order(item='lamp', count=3)")


async def test_answer_fails_and_names_class_of_renamed_field(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    task = await waiting(shop)
    shop.deploy(importing("shop_models"), shop_models=MODELS.replace("count", "quantity"))
    failed = await shop.says("yes", message_id="m-2", taskId=task["id"])
    assert state(failed) == "FAILED"
    assert "an object of shop_models.Order that this version of the class does not accept" in text(failed)
    assert "(see quantity)" in caplog.text


async def test_answer_fails_and_names_class_that_state_lacks(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    task = await waiting(shop)
    shop.deploy(importing("shopping", GRAPH), shopping=MODELS, shop_models=MODELS)
    failed = await shop.says("yes", message_id="m-2", taskId=task["id"])
    assert (state(failed), text(failed)[:40]) == ("FAILED", "The stored state has shop_models.Order, ")
    assert "shop_models.Order exists, but the state no longer names it." in caplog.text


async def test_answer_fails_and_names_enum_without_member(shop: Shop) -> None:
    graph = GRAPH.replace('Order(item="lamp", count=3)', "Order.LAMP")
    task = await waiting(shop, graph, "class Order(enum.Enum):\n    LAMP = 1\n    SOFA = 2\n")
    shop.deploy(importing("shop_models", GRAPH), shop_models="class Order(enum.Enum):\n    SOFA = 2\n")
    failed = await shop.says("yes", message_id="m-2", taskId=task["id"])
    assert (state(failed), "an object of shop_models.Order" in text(failed)) == ("FAILED", True)


async def test_answer_is_used_after_compatible_change_of_class(shop: Shop) -> None:
    task = await waiting(shop)
    shop.deploy(importing("shop_models"), shop_models=f"{MODELS}    price: int = 5\n")
    done = await shop.says("yes", message_id="m-2", taskId=task["id"])
    assert (state(done), text(done)) == ("COMPLETED", "yes: Order(item='lamp', count=3, price=5)")


async def test_class_removed_with_its_channel_is_not_missed(shop: Shop) -> None:
    """A conversation must survive the removal of a feature: no node reads the stored value."""
    task = await waiting(shop)
    without = (
        GRAPH.replace("    order: Order | None\n", "")
        .replace('return {"order"', "return {} #")
        .replace(": {state['order']!r}", "")
    )
    shop.deploy(without)
    done = await shop.says("yes", message_id="m-2", taskId=task["id"])
    assert (state(done), text(done)) == ("COMPLETED", "yes")
    again = await shop.says("hi", message_id="m-3", contextId=task["contextId"])
    assert state(again) == "INPUT_REQUIRED"


async def test_reader_outside_of_turn_gets_plain_data(shop: Shop, savers: Savers) -> None:
    """The console of `aion dev` shows the state, whatever classes there are."""
    task = await waiting(shop)
    shop.deploy(importing("shopping"), shopping=MODELS)
    thread = keys.thread_id(ContextKey(ANONYMOUS, "test", task["contextId"]))
    found = await savers.saver().aget_tuple({"configurable": {"thread_id": thread}})
    assert found is not None
    assert found.checkpoint["channel_values"]["order"] == {"item": "lamp", "count": 3}


# ── Places of objects in a checkpoint ─────────────────────────────────────────────────────────────────────────────────

PLACES = {
    "a large state": GRAPH.replace('item="lamp"', 'item="lamp" * 50_000').replace(
        "{state['order']!r}", "{len(state['order'].item)}"
    ),
    "the value of an interrupt": """
class State(TypedDict):
    messages: Annotated[list, add_messages]

def ask(state):
    return {"messages": [("ai", interrupt(Order(item="Which lamp?", count=1)))]}

graph = StateGraph(State).add_node("ask", ask).add_edge(START, "ask").compile()
""",
    "the result of a parallel node": """
class State(TypedDict):
    messages: Annotated[list, add_messages]
    order: Order | None

def take(state):
    return {"order": Order(item="lamp", count=3)}

def ask(state):
    return {"messages": [("ai", interrupt("Confirm?"))]}

def end(state):
    return {"messages": [("ai", repr(state["order"]))]}

graph = StateGraph(State).add_node("take", take).add_node("ask", ask).add_node("end", end)
graph = graph.add_edge(START, "take").add_edge(START, "ask").add_edge(["take", "ask"], "end").compile()
""",
    "the argument of a Send": """
class State(TypedDict):
    messages: Annotated[list, add_messages]

def ask(order):
    return {"messages": [("ai", f"{interrupt('Confirm?')}: {order!r}")]}

def split(state):
    return [Send("ask", Order(item="lamp", count=3))]

graph = StateGraph(State).add_node("ask", ask).add_conditional_edges(START, split, ["ask"]).compile()
""",
    "the state of a subgraph": """
class State(TypedDict):
    messages: Annotated[list, add_messages]

class Inner(State):
    order: Order | None

def take(state):
    return {"order": Order(item="lamp", count=3)}

def ask(state):
    return {"messages": [("ai", f"{interrupt('Confirm?')}: {state['order']!r}")]}

inner = StateGraph(Inner).add_node("take", take).add_node("ask", ask).add_edge(START, "take").add_edge("take", "ask")
graph = StateGraph(State).add_node("inner", inner.compile()).add_edge(START, "inner").compile()
""",
    "the result of a task": """
@task
def take() -> Order:
    return Order(item="lamp", count=3)

@entrypoint()
async def graph(given):
    order = await take()
    return f"{interrupt('Confirm?')}: {order!r}"
""",
    "the history of a DeltaChannel": """
def added(orders, writes):
    return [*orders, *(order for write in writes for order in write)]

class State(TypedDict):
    messages: Annotated[list, add_messages]
    orders: Annotated[list, DeltaChannel(added)]
    order: Order | None

def take(state):
    return {"orders": [Order(item="lamp", count=3)]}

def ask(state):
    return {"messages": [("ai", f"{interrupt('Confirm?')}: {state['orders']!r}")]}

graph = StateGraph(State).add_node("take", take).add_node("ask", ask).add_edge(START, "take").add_edge("take", "ask").compile()
""",
}
"""Graphs that wait for an answer, and whose checkpoints have an order."""


@pytest.mark.parametrize("place", PLACES)
async def test_moved_class_is_named_wherever_it_is_stored(shop: Shop, place: str) -> None:
    task = await waiting(shop, PLACES[place])
    shop.deploy(importing("shopping", PLACES[place]), shopping=MODELS)
    failed = await shop.says("yes", message_id="m-2", taskId=task["id"])
    assert (state(failed), text(failed)[:40]) == ("FAILED", "The stored state has shop_models.Order, ")


@pytest.mark.parametrize("place", PLACES)
async def test_alias_restores_object_wherever_it_is_stored(shop: Shop, place: str) -> None:
    task = await waiting(shop, PLACES[place])
    shop.deploy(importing("shopping", PLACES[place]), shopping=MODELS, shop_models="from shopping import Order")
    done = await shop.says("yes", message_id="m-2", taskId=task["id"])
    shop.deploy(importing("shop_models", PLACES[place]), shop_models=MODELS)
    same = await shop.says("hi", message_id="m-3")
    same = await shop.says("yes", message_id="m-4", taskId=same["id"])
    assert (state(done), text(done)) == (state(same), text(same)), "as without a deployment"
    assert state(done) == "COMPLETED"
