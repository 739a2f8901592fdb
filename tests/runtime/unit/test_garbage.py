"""Garbage collection during imports."""

import gc
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from aion_core.garbage import MANY_MODULES, no_garbage_collection


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Unfreeze all objects. After the test, freeze them again, as conftest.py has, and enable the garbage collector."""
    gc.unfreeze()
    yield
    gc.freeze()
    gc.enable()


def import_modules(number: int, patch: pytest.MonkeyPatch) -> None:
    """Add empty modules to `sys.modules`, as an import does."""
    for n in range(number):
        patch.setitem(sys.modules, f"imported_{n}", ModuleType(f"imported_{n}"))


def test_garbage_collection_is_disabled_within_with_block() -> None:
    with no_garbage_collection():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_garbage_collection_resumes_after_failed_import() -> None:
    @no_garbage_collection()
    def fail() -> None:
        raise ImportError

    for _ in range(2):
        with pytest.raises(ImportError):
            fail()
        assert gc.isenabled()


def test_disabled_garbage_collection_stays_disabled() -> None:
    gc.disable()
    with no_garbage_collection():
        pass
    assert not gc.isenabled()


@pytest.mark.parametrize(("number", "freezes"), [(MANY_MODULES - 1, False), (MANY_MODULES, True)])
def test_only_large_imports_call_gc_freeze(number: int, freezes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    with no_garbage_collection():
        import_modules(number, monkeypatch)
    assert bool(gc.get_freeze_count()) is freezes
