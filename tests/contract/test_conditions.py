"""Each condition of a write has a contract test that fails without it, on each engine.

Where a condition is new, this file says so: add its name to CAUGHT_BY, with the test that fails when it is gone.
`python -m tests.support.mutants` says which tests do.
"""

from collections import defaultdict
from pathlib import Path

import pytest

from tests.support import conditions, engines, mutants
from tests.support.mutants import UNCHANGED, Seen

_AFTER_A_WHOLE_TURN = "test_races.py::test_a_whole_turn_between_read_and_write_is_a_turn_of_its_own"
_READ_BY_TWO = "test_dynamodb_store.py::test_a_turn_is_not_begun_twice_when_two_read_the_same_context"
_RENEWED = "test_task_store.py::test_a_renewed_lease_lives_on"
_ANEW = "test_races.py::test_an_answer_meets_a_conversation_that_has_begun_anew"

CAUGHT_BY = {
    "task_store.follow_up: TASK_HAS_NOT_GONE_ON": (
        "test_task_store.py::test_of_two_answers_the_second_is_told_that_the_task_has_gone_on"
    ),
    "task_store.append: HEAD_IS_AS_I_KNOW_IT: generation = :known": (
        "test_task_store.py::test_a_holder_whose_head_is_not_the_newest_is_refused"
    ),
    "task_store.append: HEAD_IS_AS_I_KNOW_IT: fence = :fence": (
        "test_dynamodb_store.py::test_a_stale_fence_is_refused_even_where_the_head_has_not_moved"
    ),
    "task_writes.put_message: FIRST_TIME_IN_ITS_LIFE": (
        "test_task_store.py::test_a_repeated_message_gets_the_first_task_back"
    ),
    "task_writes.take: FIRST_TIME": "test_dynamodb_store.py::test_a_context_that_is_taken_meanwhile_is_waited_for",
    "task_writes.take: CONTEXT_HAS_EXPIRED: fence = :known": (
        "test_races.py::test_a_fence_that_is_raised_while_the_context_expires_is_not_given_out_again"
    ),
    "task_writes.take: CONTEXT_HAS_EXPIRED: expires <= :now": (
        "test_races.py::test_who_waits_in_a_context_as_it_expires_is_not_forgotten"
    ),
    "task_writes.take: CONTEXT_IS_FREE: fence = :known": _AFTER_A_WHOLE_TURN,
    "task_writes.take: CONTEXT_IS_FREE: (attribute_not_exists(waiting) OR size(waiting) = :none)": (
        "test_races.py::test_nobody_overtakes_who_begins_to_wait_just_now"
    ),
    "task_writes.wait: ONE_MORE_MAY_WAIT": ("test_task_store.py::test_one_turn_too_many_is_refused_and_leaves_nothing"),
    "task_writes.take_next: TURN_IS_FIRST": _READ_BY_TWO,
    "task_writes.take_again: NOTHING_RUNS: fence = :known": _ANEW,
    "task_writes.take_over: LEASE_IS_AS_DEAD_AS_READ: #until = :read": (
        "test_dynamodb_store.py::test_a_lease_that_is_renewed_meanwhile_is_not_taken_over"
    ),
    "task_writes.renew: LEASE_IS_MINE: fence = :fence": _RENEWED,
    "task_writes.renew: LEASE_IS_MINE: holder = :holder": _RENEWED,
    "task_writes.raise_fence: TASK_EXISTS": "test_races.py::test_a_turn_whose_task_is_gone_is_not_begun",
    "threads._check: FENCE_IS_MINE": "test_checkpoints.py::test_under_a_stale_fence_nothing_is_written",
}
"""The test that fails without the condition, or without the part of it; one for a part is tried for the whole too."""

_BY_THE_FENCE = "whoever begins a turn raises the fence, which is compared too"

NEVER_ALONE = {
    "task_writes.take: CONTEXT_IS_FREE: attribute_not_exists(running)": _BY_THE_FENCE,
    "task_writes.take: CONTEXT_IS_FREE: attribute_not_exists(interrupted)": _BY_THE_FENCE,
    "task_writes.take_again: NOTHING_RUNS: attribute_not_exists(running)": _BY_THE_FENCE,
    "task_writes.take_next: TURN_IS_FIRST: fence = :known": "a turn that begins leaves the line, which is compared too",
    "task_writes.take_next: TURN_IS_FIRST: waiting[0].id = :first": _BY_THE_FENCE,
    "task_writes.take_next: TURN_IS_FIRST: attribute_not_exists(running)": _BY_THE_FENCE,
    "task_writes.take_next: TURN_IS_FIRST: attribute_not_exists(interrupted)": _BY_THE_FENCE,
    "task_writes.take_over: LEASE_IS_AS_DEAD_AS_READ: fence = :known": (
        "whoever takes a turn over sets a later end of its lease, which is compared too"
    ),
}
"""Why no test can tell that this part is gone: another part does not hold whenever it does not."""

MUTANTS = conditions.mutants()


def caught_by(name: str) -> set[str]:
    """The tests that are to catch the mutant: its own, or any of its parts'."""
    if MUTANTS[name].part or name in CAUGHT_BY:
        return {CAUGHT_BY[name]} if name in CAUGHT_BY else set()
    parts = (other for other, mutant in MUTANTS.items() if mutant.part and mutant.whole == name)
    return {CAUGHT_BY[part] for part in parts if part in CAUGHT_BY}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> list[Seen]:
    """How the tests of the table ended, with their mutants and without, in a pytest of their own."""
    asked: dict[str, list[str]] = defaultdict(list)
    for name in MUTANTS:
        for test in sorted(caught_by(name)):
            asked[test].append(name)
    tests = [str(Path(__file__).parent / test) for test in asked]
    return mutants.run(asked, tests, tmp_path_factory.mktemp("mutants")) if tests else []


@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in NEVER_ALONE])
def test_a_contract_test_fails_without(name: str, seen: list[Seen]) -> None:
    tests = caught_by(name)
    assert tests, f"No test is known to fail without `{name}`: name one in CAUGHT_BY."
    for engine in engines.chosen():
        ended = [each for each in seen if each.mutant == name and each.engine == engine]
        assert {each.test for each in ended} == tests, f"{tests} did not run on {engine}"
        refused = [each for each in ended if "ValidationException" in each.text or "ValidationError" in each.text]
        assert not refused, f"{engine} does not take `{MUTANTS[name].text}` for a condition:\n{refused[0].text}"
        assert any(each.outcome == "failed" for each in ended), (
            f"{' and '.join(tests)} pass without `{name}` on {engine}"
        )


def test_those_tests_pass_with_every_condition(seen: list[Seen]) -> None:
    failed = [each.text for each in seen if each.mutant == UNCHANGED and each.outcome != "passed"]
    assert failed == []


def test_the_tables_name_only_what_there_is() -> None:
    assert {*CAUGHT_BY, *NEVER_ALONE} <= {*MUTANTS}
    assert not {*CAUGHT_BY} & {*NEVER_ALONE}


def test_every_condition_has_a_name_and_is_used_where_a_mutant_can_be_made_of_it() -> None:
    assert conditions.out_of_reach() == []
