"""Stored objects of authors' classes, read by another version of the code: restored, or refused by the class's name."""

import sys
from collections import deque
from collections.abc import Callable, Iterator
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command, Interrupt, Send
from pydantic import SecretStr

from aion_core.state.langgraph.author_classes import is_author_class
from aion_core.state.langgraph.class_record import StoredClass, recorded_classes
from aion_core.state.langgraph.serializer import serializer
from aion_core.state.langgraph.stored_objects import UnrestorableState, of_channels

Deploy = Callable[..., "Version"]

HEAD = """
import dataclasses, enum
from typing import *
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, RootModel, computed_field, field_validator
from pydantic import dataclasses as pydantic_dataclasses
from pydantic.v1 import BaseModel as V1Model
"""


class Version:
    """One version of the modules of an author."""

    def __init__(self, modules: dict[str, ModuleType]) -> None:
        self.modules = modules
        classes = [kind for module in modules.values() for kind in vars(module).values() if is_author_class(kind)]
        self.serializer = serializer(frozenset(kind for kind in classes if kind.__module__ in modules))

    def make(self, expression: str, module: str = "shop_models") -> Any:
        return eval(expression, vars(self.modules[module]))  # noqa: S307

    def store(self, expression: str) -> tuple[str, bytes]:
        return self.serializer.dumps_typed(self.make(expression))

    def read(self, stored: tuple[str, bytes]) -> Any:
        return self.serializer.loads_typed(stored)


@pytest.fixture
def deploy() -> Iterator[Deploy]:
    """Return a function that replaces the author's modules by those with these sources."""
    names: set[str] = set()

    def deployed(**sources: str) -> Version:
        for name in names:
            sys.modules.pop(name, None)
        modules = {}
        for name, source in sources.items():
            module = modules[name] = sys.modules[name] = ModuleType(name)
            names.add(name)
            exec(HEAD + source, vars(module))  # noqa: S102
        return Version(modules)

    yield deployed
    for name in names:
        sys.modules.pop(name, None)


def refusal(version: Version, stored: tuple[str, bytes]) -> UnrestorableState:
    with pytest.raises(UnrestorableState) as refused:
        version.read(stored)
    text = " ".join([str(refused.value), *refused.value.__notes__])
    assert "lamp" not in text, "no stored value"
    assert (refused.value.__cause__, refused.value.__suppress_context__) == (None, True), "no stored value in the log"
    return refused.value


KINDS = {
    "model": ("class Order(BaseModel): item: str; count: int = 1", "Order(item='lamp', count=3)"),
    "model of pydantic 1": ("class Order(V1Model):\n item: str\n count: int = 1", "Order(item='lamp', count=3)"),
    "model with an alias": ("class Order(BaseModel): item: str = Field(alias='Item')", "Order(Item='lamp')"),
    "root model": ("class Order(RootModel[list[str]]): ...", "Order(['lamp'])"),
    "dataclass": ("@dataclasses.dataclass\nclass Order:\n item: str", "Order('lamp')"),
    "dataclass of pydantic": ("@pydantic_dataclasses.dataclass\nclass Order:\n item: str", "Order('lamp')"),
    "enum": ("class Order(enum.Enum): LAMP = 'lamp'", "Order.LAMP"),
    "enum of texts": ("class Order(enum.StrEnum): LAMP = 'lamp'", "Order.LAMP"),
    "enum of numbers": ("class Order(enum.IntEnum): LAMP = 7", "Order.LAMP"),
    "named tuple": ("class Order(NamedTuple): item: str", "Order('lamp')"),
    "model with a computed field": (
        "class Order(BaseModel, extra='forbid'):\n item: str\n @computed_field\n def size(self) -> int: return 4",
        "Order(item='lamp')",
    ),
}
"""Source and object of each kind of class that LangGraph stores."""


@pytest.mark.parametrize("kind", KINDS)
def test_object_is_restored_by_same_code(deploy: Deploy, kind: str) -> None:
    source, expression = KINDS[kind]
    stored = deploy(shop_models=source).store(expression)
    version = deploy(shop_models=source)
    assert version.read(stored) == version.make(expression)
    assert type(version.read(stored)) is version.make("Order")


@pytest.mark.parametrize("kind", KINDS)
def test_object_of_moved_class_is_refused(deploy: Deploy, kind: str) -> None:
    source, expression = KINDS[kind]
    stored = deploy(shop_models=source).store(expression)
    refused = refusal(deploy(shopping=source), stored)
    assert str(refused) == (
        "The stored state has shop_models.Order, which the state of this version of the agent does not have (moved or renamed?). "
        "Begin a new conversation, without contextId: this one continues only after a deployment that can read its state."
    )
    assert refused.__notes__ == [
        "Keep an alias in the module shop_models until no stored state has the class: `from shopping import Order`."
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_object_of_moved_class_is_restored_by_alias(deploy: Deploy, kind: str) -> None:
    source, expression = KINDS[kind]
    stored = deploy(shop_models=source).store(expression)
    version = deploy(shopping=source, shop_models="from shopping import Order")
    assert version.read(stored) == version.make(expression, "shopping")


@pytest.mark.parametrize("kind", KINDS)
def test_object_of_renamed_class_is_restored_by_alias(deploy: Deploy, kind: str) -> None:
    source, expression = KINDS[kind]
    stored = deploy(shop_models=source).store(expression)
    renamed = source.replace("Order", "Purchase")
    assert "from … import … as Order" in refusal(deploy(shop_models=renamed), stored).__notes__[0]
    version = deploy(shop_models=f"{renamed}\nOrder = Purchase")
    assert version.read(stored) == version.make(expression)


PLACES: dict[str, Callable[[Any], Any]] = {
    "list": lambda order: [order],
    "dict": lambda order: {"a": {2: [order, 1]}},
    "interrupt": lambda order: Interrupt(order, id="i-1"),
    "send": lambda order: Send("node", order),
    "command": lambda order: Command(resume=order, goto=[]),
    "deque": lambda order: deque([order]),
    "set": lambda order: frozenset([order]),
    "delta": lambda order: _DeltaSnapshot([order]),
    "message": lambda order: AIMessage("a", id="m-1", additional_kwargs={"order": order}),
}
"""Values that contain an object."""


@pytest.mark.parametrize("place", PLACES)
def test_object_within_another_value_is_restored_or_refused(deploy: Deploy, place: str) -> None:
    version = deploy(shop_models="class Order(enum.Enum): LAMP = 'lamp'")
    value = PLACES[place](version.make("Order.LAMP"))
    stored = version.serializer.dumps_typed(value)
    restored = version.read(stored)
    assert restored.value == value.value if place == "delta" else restored == value
    refusal(deploy(), stored)


CHANGES = {
    "a renamed field": ("class Order(BaseModel): item: str; quantity: int", "(see quantity)"),
    "a new required field": ("class Order(BaseModel): item: str; count: int; price: int", "(see price)"),
    "a field of another type": ("class Order(BaseModel): item: int; count: int", "(see item)"),
    "a forbidden field": ("class Order(BaseModel, extra='forbid'): item: str", "Let shop_models.Order accept"),
    "a field of another class": (
        "class Item(BaseModel): name: str\nclass Order(BaseModel): item: Item; count: int",
        "(see item)",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_object_that_changed_model_refuses_is_refused(deploy: Deploy, change: str) -> None:
    stored = deploy(shop_models="class Order(BaseModel): item: str; count: int").store("Order(item='lamp', count=3)")
    source, note = CHANGES[change]
    refused = refusal(deploy(shop_models=source), stored)
    assert "an object of shop_models.Order that this version of the class does not accept" in str(refused)
    assert note in refused.__notes__[0]


COMPATIBLE = {
    "a new field with a default": ("class Order(BaseModel): item: str; count: int; price: int = 5", {"price": 5}),
    "no field any more": ("class Order(BaseModel): item: str", {}),
    "a renamed field with its old name": (
        "class Order(BaseModel):\n item: str\n quantity: int = Field(validation_alias=AliasChoices('quantity', 'count'))",
        {"quantity": 3},
    ),
}


@pytest.mark.parametrize("change", COMPATIBLE)
def test_object_that_changed_model_accepts_is_restored(deploy: Deploy, change: str) -> None:
    stored = deploy(shop_models="class Order(BaseModel): item: str; count: int").store("Order(item='lamp', count=3)")
    source, values = COMPATIBLE[change]
    order = deploy(shop_models=source).read(stored)
    assert {name: getattr(order, name) for name in values} == values


OTHERS = {
    "dataclass": ("@dataclasses.dataclass\nclass Order:\n item: str\n {}: int", "Order('lamp', 3)", "count, quantity"),
    "named tuple": ("class Order(NamedTuple):\n item: str\n {}: int", "Order('lamp', 3)", "count, quantity"),
    "dataclass of pydantic": (
        "@pydantic_dataclasses.dataclass\nclass Order:\n item: str\n {}: int",
        "Order('lamp', 3)",
        "quantity",
    ),
    "model of pydantic 1": ("class Order(V1Model):\n item: str\n {}: int", "Order(item='lamp', count=3)", ""),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_object_of_class_with_renamed_field_is_refused(deploy: Deploy, kind: str) -> None:
    source, expression, names = OTHERS[kind]
    stored = deploy(shop_models=source.format("count")).store(expression)
    refused = refusal(deploy(shop_models=source.format("quantity")), stored)
    assert (f" (see {names}):" if names else "stored:") in refused.__notes__[0]


def test_removed_or_changed_member_of_enum_is_refused(deploy: Deploy) -> None:
    stored = deploy(shop_models="class Order(enum.Enum): LAMP = 'lamp'; SOFA = 'sofa'").store("Order.LAMP")
    for members in ("SOFA = 'sofa'", "LAMP = 'light'; SOFA = 'sofa'"):
        assert "shop_models.Order" in str(refusal(deploy(shop_models=f"class Order(enum.Enum): {members}"), stored))


def test_refusal_names_innermost_class(deploy: Deploy) -> None:
    order = "@dataclasses.dataclass\nclass Order:\n item: Any\n"
    stored = deploy(shop_models=f"{order}class Item(enum.Enum): LAMP = 'lamp'").store("Order(Item.LAMP)")
    assert "shop_models.Item," in str(refusal(deploy(shop_models=order), stored))


def test_class_that_state_no_longer_names_is_refused(deploy: Deploy) -> None:
    source = "class Order(BaseModel): item: str"
    stored = deploy(shop_models=source).store("Order(item='lamp')")
    version = deploy(shop_models=source)
    version.serializer = serializer()
    assert refusal(version, stored).__notes__ == [
        "shop_models.Order exists, but the state no longer names it. Name it in an annotation of the state again."
    ]


def test_module_that_fails_to_import_is_no_alias(
    deploy: Deploy, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "class Order(BaseModel): item: str"
    stored = deploy(shop_models=source).store("Order(item='lamp')")
    (tmp_path / "shop_models.py").write_text("import sys\nsys.exit('a script')")
    monkeypatch.syspath_prepend(tmp_path)
    assert "Keep an alias" in refusal(deploy(shopping=source), stored).__notes__[0]


def test_alias_of_class_outside_of_list_is_refused(deploy: Deploy) -> None:
    """An alias makes no other class restorable: only listed classes are constructed."""
    source = "class Order(BaseModel): item: str"
    stored = deploy(shop_models=source).store("Order(item='lamp')")
    version = deploy(shopping=source, shop_models="from subprocess import Popen as Order")
    refusal(version, stored)


# ── Objects that the writer would not have restored either ────────────────────────────────────────────────────────────


def test_object_of_unlisted_class_stays_plain_data(deploy: Deploy) -> None:
    first = deploy(shop_models="class Order(BaseModel): item: str")
    listed, unlisted = first.serializer, serializer()
    stored = unlisted.dumps_typed(first.make("Order(item='lamp')"))
    assert stored[0] == "msgpack"
    assert unlisted.loads_typed(stored) == {"item": "lamp"}
    assert listed.loads_typed(stored) == first.make("Order(item='lamp')")
    assert deploy(shopping="class Order(BaseModel): item: str").read(stored) == {"item": "lamp"}


def test_unlisted_object_beside_listed_one_stays_plain_data(deploy: Deploy) -> None:
    first = deploy(shop_models="class Order(BaseModel): item: str")
    order = first.make("Order(item='lamp')")
    pair = [
        order,
        Unlisted("x"),
        HumanMessage("hi", id="m-1"),
        SecretStr("sk"),
        Decimal("1.5"),
        AIMessage("a", id="m-2"),
    ]
    restored = first.read(first.serializer.dumps_typed(pair))
    assert restored == [order, {"item": "x"}, *pair[2:]]


class Unlisted:
    """Class with the form of a model of pydantic, outside of the author's modules."""

    def __init__(self, item: str) -> None:
        self._item = item

    def model_dump(self) -> dict[str, Any]:
        return {"item": self._item}


def test_unfinished_object_of_unchanged_class_is_restored(deploy: Deploy) -> None:
    """A form that a conversation fills step by step has no required fields yet. It is restored as it was stored."""
    source = "class Order(BaseModel): item: str; count: int"
    stored = deploy(shop_models=source).store("Order.model_construct(item='lamp')")
    order = deploy(shop_models=f"{source}\nclass Other(BaseModel): ...").read(stored)
    assert (order.item, hasattr(order, "count")) == ("lamp", False)
    refusal(deploy(shop_models=f"{source}; price: int = 1"), stored)


def test_unfinished_object_is_refused_after_change_of_nested_class(deploy: Deploy) -> None:
    source = "class Item(BaseModel): {}: str\nclass Order(BaseModel): item: Item"
    stored = deploy(shop_models=source.format("name")).store("Order(item=Item(name='lamp'))")
    refusal(deploy(shop_models=source.format("title")), stored)


def test_local_and_generic_classes_are_restored(deploy: Deploy) -> None:
    """Neither has its name in its module: LangGraph alone would restore a dict."""
    version = deploy(
        shop_models="T = TypeVar('T')\nclass Box(BaseModel, Generic[T]): held: T\nBoxed = Box[int]\n"
        "def make():\n @dataclasses.dataclass\n class Local:\n  item: str\n return Local\nLocal = make()"
    )
    for expression in ("Boxed(held=3)", "Local('lamp')"):
        assert version.read(version.store(expression)) == version.make(expression)


def test_classes_with_same_name_are_restored_as_langgraph_does(deploy: Deploy) -> None:
    source = "class A:\n class Order(BaseModel): item: str\nclass B:\n class Order(BaseModel): other: str\nOne, Two = A.Order, B.Order"
    version = deploy(shop_models=source)
    stored = version.store("One(item='lamp')")
    assert (stored[0], version.read(stored)) == ("msgpack", {"item": "lamp"})


def test_unlisted_classes_of_lenient_reader_become_plain_data(deploy: Deploy) -> None:
    stored = deploy(shop_models="class Order(BaseModel): item: str").store("[Order(item='lamp')]")
    assert serializer(strict=False).loads_typed(stored) == [{"item": "lamp"}]


def test_corrupt_value_is_not_called_unrestorable(deploy: Deploy) -> None:
    version = deploy(shop_models="class Order(BaseModel): item: str")
    kind, content = version.store("Order(item='lamp')")
    with pytest.raises(ValueError, match="end of file"):
        version.read((kind, content[:-3]))


# ── The record ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_record_names_only_classes_in_value(deploy: Deploy) -> None:
    version = deploy(shop_models="class Order(BaseModel): item: str\nclass Other(BaseModel): item: str")
    assert version.serializer.dumps_typed({"text": "shop_models Order", "n": 1})[0] == "msgpack"
    assert version.serializer.dumps_typed(None) == ("null", b"")
    assert [*recorded_classes(version.store("{'a': Order(item='Other')}")[0])] == [StoredClass("shop_models", "Order")]
    both = version.store("[Other(item=''), Order(item='')]")[0]
    assert [str(each) for each in recorded_classes(both)] == ["shop_models.Order", "shop_models.Other"]


def test_shape_follows_definition_only(deploy: Deploy) -> None:
    def shape(source: str) -> str:
        return recorded_classes(deploy(shop_models=source).store("Order(item='lamp')")[0])[
            StoredClass("shop_models", "Order")
        ]

    first = shape("class Order(BaseModel): item: str")
    assert shape("class Order(BaseModel):\n  '''A text.'''\n  item: str\n  def size(self): return 1") == first
    others = [
        "class Order(BaseModel): item: str = ''",
        "class Order(BaseModel): item: str | None",
        "class Order(BaseModel): item: str; count: int = 1",
        "class Order(BaseModel): item: Annotated[str, Field(validation_alias=AliasChoices('item', 'i'))]; more: 'Order | None' = None",
    ]
    assert len({first, *map(shape, others)}) == 1 + len(others)


def test_values_of_other_channels_are_left_out(deploy: Deploy) -> None:
    version = deploy(shop_models="class Order(BaseModel): item: str")
    order = version.make("Order(item='lamp')")
    checkpoint = {"v": 1, "channel_values": {"kept": [1, {2: order}], "gone": order}}
    stored = version.serializer.dumps_typed([checkpoint, {"source": "loop"}])
    left = version.read(of_channels(stored, "kept".__eq__))
    assert left == [{"v": 1, "channel_values": {"kept": [1, {2: order}]}}, {"source": "loop"}]
