"""Tests of many rows: cheap rows are one case, as a case of pytest costs 3 to 6 ms of CPU; of a large product a part runs."""

import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import wraps
from itertools import product
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Awaitable[None] | None])


def each_row(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Run the test with each row, as `parametrize` does, in one case. It fails after the last row, with each row's error.

    Each row has its own `tmp_path` and `monkeypatch`, and an empty `caplog`; the rows share the other fixtures. A test may have
    several of these decorators.
    """
    fields = [each.strip() for each in names.split(",")] if isinstance(names, str) else list(names)
    given = [dict(zip(fields, row if len(fields) > 1 else [row], strict=True)) for row in rows]
    assert given, "no rows"

    def decorated(test: Test) -> Test:
        run: Any
        if inspect.iscoroutinefunction(test):

            async def run(**fixtures: Any) -> None:
                with _collected() as of:
                    for number, row in enumerate(given):
                        with of(row), _fixtures(fixtures, number) as own:
                            await test(**own, **row)

        else:

            def run(**fixtures: Any) -> None:
                with _collected() as of:
                    for number, row in enumerate(given):
                        with of(row), _fixtures(fixtures, number) as own:
                            test(**own, **row)

        run = wraps(test)(run)
        signature = inspect.signature(test)
        own = [each for each in signature.parameters.values() if each.name not in fields]
        run.__signature__ = signature.replace(parameters=own)
        return run  # type: ignore[no-any-return]

    return decorated


def taking_turns(**values: Iterable[Any]) -> pytest.MarkDecorator:
    """Parametrize by each combination of the first parameters, with the values of the last parameter in turn.

    With three parameters each two values meet. `make test-deep` runs the whole product.
    """
    lists = [list(each) for each in values.values()]
    rows = []
    for row in product(*(enumerate(each) for each in lists)):
        is_usual = sum(index for index, _ in row) % len(lists[-1]) == 0
        rows.append(pytest.param(*(value for _, value in row), marks=[] if is_usual else [pytest.mark.deep]))
    return pytest.mark.parametrize(tuple(values), rows)


def places(last: int, first: int = 1) -> list[int]:
    """Return the places at which a test cuts a turn: each third number, and the last one. `make test-deep` cuts at all.

    ADK's events and checkpoints often alternate, so that each third place has both.
    """
    if os.environ.get("SIMULATION_DEEP"):
        return list(range(first, last + 1))
    return sorted({*range(first, last + 1, 3), last})


@contextmanager
def _fixtures(fixtures: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """Yield the fixtures of a row."""
    own = dict(fixtures)
    if "tmp_path" in own:
        own["tmp_path"] = own["tmp_path"] / f"row{number}"
        own["tmp_path"].mkdir()
    if "caplog" in own:
        own["caplog"].clear()
    with own["monkeypatch"].context() if "monkeypatch" in own else nullcontext() as patch:
        yield {**own, "monkeypatch": patch} if patch else own


@contextmanager
def _collected() -> Iterator[Callable[[dict[str, Any]], Any]]:
    """Yield the context of a row, which keeps its error with a note; raise all errors at the end."""
    errors: list[BaseException] = []

    @contextmanager
    def of(row: dict[str, Any]) -> Iterator[None]:
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            error.add_note(f"Row: {', '.join(f'{name}={str(value)[:200]}' for name, value in row.items())}")
            errors.append(error)

    yield of
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise BaseExceptionGroup(f"{len(errors)} rows failed", errors)
