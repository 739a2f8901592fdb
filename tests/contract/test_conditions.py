"""Each condition of a write has a contract test that fails without it, on each engine.

Where a condition is new, this file says so: add its name to CAUGHT_BY, with the test that fails when it is gone.
`python -m tests.support.mutants` says which tests do.
"""

from collections import defaultdict
from pathlib import Path

import pytest

from tests.support import conditions, engines, mutants
from tests.support.mutants import UNCHANGED, Seen

_TOO_MANY = "test_task_store.py::test_one_turn_too_many_is_refused_and_leaves_nothing"
_A_QUESTION = "test_races.py::test_a_message_that_meets_a_question_waits_for_nobody"
_NOT_TO_QUEUE = "test_races.py::test_a_message_that_is_not_to_queue_does_not_though_the_context_was_free"
_NOT_THE_NEWEST = "test_task_store.py::test_a_holder_whose_head_is_not_the_newest_is_refused"
_TAKEN_OVER = "test_task_store.py::test_a_dead_holders_turn_is_taken_over_and_its_writes_are_refused"
_DOES_NOT_GO_ON = "test_races.py::test_whose_head_is_not_the_newest_does_not_go_on"
_READ_AGAIN = "test_cancel.py::test_who_has_read_the_task_before_its_last_event_reads_it_again"
_RENEWED = "test_task_store.py::test_a_renewed_lease_lives_on"
_NOT_PAUSED = "test_ends.py::test_a_turn_that_never_ran_or_is_anothers_is_not_paused"
_AS_IT_EXPIRES = "test_races.py::test_who_waits_in_a_context_as_it_expires_is_not_forgotten"
_EXPIRED_UNDER_IT = "test_retention.py::test_a_holder_whose_context_has_expired_under_it_does_not_free_the_next_ones"
_RUNNING = "attribute_exists(running)"
_ROOM = "(attribute_not_exists(waiting) OR size(waiting) < :most)"
_LISTENS_NOW = "test_push_races.py::test_whoever_records_tells_who_begins_to_listen_just_now"
_WANTS_TO_HEAR = "test_push_races.py::test_who_asks_for_more_and_wants_to_hear_of_it_reads_the_task_again"
_EPOCH = "(attribute_not_exists(push_epoch) OR push_epoch = :known_epoch)"
_NOBODY_WAITS = "(attribute_not_exists(waiting) OR size(waiting) = :none)"

CAUGHT_BY = {
    f"arrivals.create: MAY_WAIT_BEHIND_OTHERS: {_ROOM}": _TOO_MANY,
    "arrivals.create: MAY_WAIT_BEHIND_OTHERS: attribute_not_exists(interrupted)": _A_QUESTION,
    f"arrivals.create: MAY_WAIT_BEHIND_OTHERS: ({_RUNNING} OR (attribute_exists(waiting) AND size(waiting) > :none))": (
        "test_races.py::test_what_was_busy_and_is_free_meanwhile_is_taken"
    ),
    f"arrivals.create: MAY_WAIT: {_ROOM}": _TOO_MANY,
    "arrivals.create: MAY_WAIT: attribute_not_exists(interrupted)": _A_QUESTION,
    "arrivals.create: MAY_WAIT_ALONE: attribute_not_exists(running)": _NOT_TO_QUEUE,
    "arrivals.create: MAY_WAIT_ALONE: attribute_not_exists(interrupted)": _NOT_TO_QUEUE,
    f"arrivals.create: MAY_WAIT_ALONE: {_NOBODY_WAITS}": _NOT_TO_QUEUE,
    "arrivals._queued: ONE_MORE_MAY_WAIT": "test_races.py::test_one_message_too_many_behind_a_question_is_refused",
    f"arrivals._queued: MAY_WAIT: {_ROOM}": (
        "test_follow_ups.py::test_one_message_too_many_to_a_task_at_work_is_refused_and_leaves_nothing"
    ),
    "arrivals._queued: MAY_WAIT: attribute_not_exists(interrupted)": (
        "test_races.py::test_a_message_to_what_waits_that_meets_a_question_wakes_nobody"
    ),
    f"arrivals._taken: TASK_HAS_NOT_GONE_ON: {_EPOCH}": (
        "test_push_races.py::test_who_answers_as_somebody_begins_to_listen_reads_the_task_again"
    ),
    "arrivals._taken: TASK_HAS_NOT_GONE_ON: generation = :known": (
        "test_follow_ups.py::test_by_interrupt_a_message_to_a_task_that_was_read_before_its_last_event_is_told_so"
    ),
    "task_store._beginning: HEAD_IS_AS_I_KNOW_IT: generation = :known": (
        "test_races.py::test_a_message_that_is_taken_in_finds_the_next_number_whatever_its_task_still_says"
    ),
    "task_store.append: HEAD_IS_AS_I_KNOW_IT: generation = :known": _NOT_THE_NEWEST,
    "task_store.append: HEAD_IS_AS_I_KNOW_IT: fence = :known_fence": _TAKEN_OVER,
    "task_store._resting: HEAD_IS_AS_I_KNOW_IT: generation = :known": _NOT_THE_NEWEST,
    "task_store._ending: HEAD_IS_AS_I_KNOW_IT: generation = :known": _DOES_NOT_GO_ON,
    "task_store._ending: HEAD_IS_AS_I_KNOW_IT (use 2): generation = :known": _DOES_NOT_GO_ON,
    "task_store.cancel: HEAD_IS_AS_I_KNOW_IT: generation = :known": _READ_AGAIN,
    "task_store.cancel: HEAD_IS_AS_I_KNOW_IT: fence = :known_fence": _READ_AGAIN,
    f"task_store._beginning: HEAD_IS_AS_I_KNOW_IT: {_EPOCH}": (
        "test_push_races.py::test_a_message_that_is_taken_in_is_told_to_who_begins_to_listen_just_now"
    ),
    f"task_store.append: HEAD_IS_AS_I_KNOW_IT: {_EPOCH}": _LISTENS_NOW,
    f"task_store._resting: HEAD_IS_AS_I_KNOW_IT: {_EPOCH}": _LISTENS_NOW,
    f"task_store._ending: HEAD_IS_AS_I_KNOW_IT: {_EPOCH}": (
        "test_push_races.py::test_whoever_ends_a_turn_before_others_tells_who_begins_to_listen_just_now"
    ),
    f"task_store._ending: HEAD_IS_AS_I_KNOW_IT (use 2): {_EPOCH}": (
        "test_push_races.py::test_whoever_goes_on_with_the_same_task_tells_who_begins_to_listen_just_now"
    ),
    f"task_store.cancel: HEAD_IS_AS_I_KNOW_IT: {_EPOCH}": (
        "test_push_races.py::test_who_cancels_as_somebody_begins_to_listen_reads_the_task_again"
    ),
    "api_keys.add: FIRST_TIME": "test_api_keys.py::test_an_id_is_one_keys",
    "limits.take: IS_FULL": "test_limits.py::test_as_many_requests_as_a_minute_has_are_taken_and_no_more",
    "limits.take: HAS_ONE": "test_limits.py::test_as_many_requests_as_a_minute_has_are_taken_and_no_more",
    "limits._change: STREAMS_ARE_AS_READ": "test_limits.py::test_streams_that_are_opened_at_once_are_all_counted",
    "limits.count_task: ONE_MORE_MAY_BE_OPEN": "test_limits.py::test_as_many_tasks_are_counted_as_may_be_open",
    "push_writes.change: REVISION_IS_AS_READ": ("test_push_configs.py::test_who_has_lost_its_claim_changes_nothing"),
    "push_writes.clear: IT_IS_THERE": ("test_push_races.py::test_to_clear_an_event_that_has_expired_leaves_nothing"),
    "push_writes.forget_overdue: DUE_AS_READ": (
        "test_push_races.py::test_what_is_registered_anew_as_a_sweep_finds_the_old_one_expired_stays_due"
    ),
    "push_writes.claim_overdue: DUE_AS_READ": (
        "test_push_races.py::test_what_another_sweep_claims_meanwhile_is_not_claimed_again"
    ),
    "task_writes.desert: LISTENERS_ARE_AS_READ": (
        "test_push_configs.py::test_who_has_begun_to_listen_meanwhile_is_not_forgotten"
    ),
    "task_writes.listen: TASK_IS_KEPT: attribute_exists(pk)": (
        "test_push_races.py::test_nobody_listens_to_a_task_that_is_deleted_meanwhile"
    ),
    f"task_writes.listen: TASK_IS_KEPT: {_EPOCH}": "test_push_races.py::test_the_last_room_is_given_once",
    "task_writes.listen_at_work: TASK_IS_AT_WORK_FOR_ALL: #state IN (:submitted, :working)": _WANTS_TO_HEAR,
    f"task_writes.listen_at_work: TASK_IS_AT_WORK_FOR_ALL: {_EPOCH}": _WANTS_TO_HEAR,
    "task_writes.put_message: FIRST_TIME_IN_ITS_LIFE": (
        "test_task_store.py::test_a_repeated_message_gets_the_first_task_back"
    ),
    "task_writes.raise_fence: TASK_HAS_NOT_ENDED": (
        "test_races.py::test_a_turn_whose_task_is_deleted_meanwhile_is_not_begun"
    ),
    "task_writes.check_at_work: TASK_IS_AT_WORK": (
        "test_follow_ups.py::test_a_message_to_a_task_that_has_come_to_rest_meanwhile_is_told_so"
    ),
    "context_writes.take: FIRST_TIME": "test_races.py::test_a_context_that_is_taken_meanwhile_is_waited_for",
    "context_writes.take: CONTEXT_HAS_EXPIRED: fence = :known": (
        "test_races.py::test_a_fence_that_is_raised_while_the_context_expires_is_not_given_out_again"
    ),
    "context_writes.take: CONTEXT_HAS_EXPIRED: expires <= :now": _AS_IT_EXPIRES,
    "context_writes.take: CONTEXT_IS_FREE: fence = :known": (
        "test_races.py::test_a_whole_turn_between_read_and_write_is_a_turn_of_its_own"
    ),
    f"context_writes.take: CONTEXT_IS_FREE: {_NOBODY_WAITS}": (
        "test_races.py::test_nobody_overtakes_who_begins_to_wait_just_now"
    ),
    "context_writes.take_again: FENCE_IS_AS_READ": (
        "test_races.py::test_an_answer_takes_the_fence_after_that_of_who_was_canceled_meanwhile"
    ),
    "context_writes.take_over: LEASE_IS_AS_DEAD_AS_READ: #until = :read": (
        "test_races.py::test_a_lease_that_is_renewed_meanwhile_is_not_taken_over"
    ),
    "context_writes.take_from: FENCE_IS_AS_READ": (
        "test_races.py::test_who_takes_a_turn_over_meanwhile_is_interrupted_too"
    ),
    "context_writes.renew: LEASE_IS_MINE: fence = :fence": _RENEWED,
    "context_writes.renew: LEASE_IS_MINE: holder = :holder": _RENEWED,
    "context_writes.wait_anew: CONTEXT_HAS_EXPIRED: expires <= :now": _AS_IT_EXPIRES,
    "context_writes.wait_first: FENCE_IS_AS_READ": (
        "test_races.py::test_who_takes_a_turn_over_meanwhile_is_interrupted_too"
    ),
    "context_writes.release: FENCE_IS_MINE": _EXPIRED_UNDER_IT,
    "context_writes.release: NOTHING_WAITS": "test_races.py::test_a_message_that_comes_as_a_turn_ends_is_not_forgotten",
    "context_writes.release_asking: FENCE_IS_MINE": _EXPIRED_UNDER_IT,
    "context_writes.put_down: LEASE_IS_MINE: fence = :fence": _NOT_PAUSED,
    "context_writes.put_down: LEASE_IS_MINE: holder = :holder": _NOT_PAUSED,
    "context_writes.strike: FENCE_IS_AS_READ": (
        "test_races.py::test_who_takes_a_turn_over_as_one_that_waits_is_canceled_keeps_its_lease"
    ),
    "context_writes.claim: DUE_AS_READ": "test_races.py::test_what_is_claimed_meanwhile_is_not_claimed_again",
    "context_writes._line_as_read: LINE_IS_AS_READ": (
        "test_races.py::test_a_message_that_joins_the_line_as_another_is_canceled_waits_on"
    ),
    "context_writes._line_as_read: LINE_IS_NEW": (
        "test_races.py::test_a_message_that_comes_as_another_is_canceled_waits_on"
    ),
    "task_list._make_secret: FIRST_TIME": "test_task_list.py::test_a_secret_that_another_makes_meanwhile_is_taken",
    "task_list._query: LIVES": (
        "test_task_list.py::test_what_has_expired_is_not_listed_though_dynamodb_has_yet_to_delete_it"
    ),
    "task_list._query: IS_IN_STATE": "test_task_list.py::test_a_state_is_found_however_far_apart_its_tasks_are",
    "fenced_writes._check: FENCE_IS_MINE": "test_checkpoints.py::test_under_a_stale_fence_nothing_is_written",
    "long_term_memory._touch: ITEM_IS_AS_READ": ("test_long_term_memory.py::test_touch_leaves_changed_items_alone"),
    "sessions._make: FIRST_TIME_IN_ITS_LIFE": "test_sessions.py::test_a_session_is_created_once",
    "sessions._move_head: SESSION_IS_AS_READ: made = :made": "test_sessions.py::test_a_session_that_is_made_again_is_another",
    "sessions._move_head: SESSION_IS_AS_READ: revision = :known": (
        "test_sessions.py::test_what_was_read_before_another_wrote_is_refused"
    ),
    "session_rows._check: FENCE_IS_MINE": "test_sessions.py::test_a_late_workers_write_is_refused",
    "session_rows._keep: ROW_IS_THERE": (
        "test_dynamodb_sessions.py::test_a_session_that_is_deleted_while_it_is_renewed_stays_deleted"
    ),
}
"""The test that fails without the condition, or without the part of it; one for a part is tried for the whole too."""

_BY_THE_FENCE = "whoever begins a turn raises the fence, which is compared too"
_BY_THE_LINE = "a turn that begins, or is canceled, leaves the line, which is compared too"
_BY_THE_HEAD = "whoever takes the context raises the fence of the head, which is compared too"
_BY_THE_TASK = "a task asks, or works, until its head moves on, which is compared too"

NEVER_ALONE = {
    "task_store._resting: HEAD_IS_AS_I_KNOW_IT: fence = :known_fence": _BY_THE_FENCE,
    "task_store._beginning: HEAD_IS_AS_I_KNOW_IT: fence = :known_fence": _BY_THE_FENCE,
    "task_store._ending: HEAD_IS_AS_I_KNOW_IT: fence = :known_fence": _BY_THE_FENCE,
    "task_store._ending: HEAD_IS_AS_I_KNOW_IT (use 2): fence = :known_fence": _BY_THE_FENCE,
    "context_writes.take: CONTEXT_IS_FREE: attribute_not_exists(running)": _BY_THE_FENCE,
    "context_writes.take: CONTEXT_IS_FREE: attribute_not_exists(interrupted)": _BY_THE_FENCE,
    "context_writes.take_again: NOTHING_RUNS": _BY_THE_FENCE,
    "context_writes.take_again: TASK_ASKS": _BY_THE_TASK,
    "context_writes.take_next: FENCE_IS_AS_READ": _BY_THE_LINE,
    "context_writes.take_next: NOTHING_RUNS": _BY_THE_FENCE,
    "context_writes.take_next: NOTHING_ASKS": _BY_THE_FENCE,
    "context_writes.take_over: LEASE_IS_AS_DEAD_AS_READ: fence = :known": (
        "whoever takes a turn over sets a later end of its lease, which is compared too"
    ),
    "context_writes.wait_anew: CONTEXT_HAS_EXPIRED: fence = :known": (
        "what it leaves is the same, whoever has run in the context as it expired"
    ),
    "context_writes.wait_first: NOTHING_RUNS": _BY_THE_FENCE,
    "context_writes.wait_first: TASK_ASKS": _BY_THE_TASK,
    "context_writes.wait_first: SOMETHING_RUNS": _BY_THE_TASK,
    "context_writes.leave: FENCE_IS_AS_READ": _BY_THE_HEAD,
    "context_writes.pass_on: FENCE_IS_AS_READ": _BY_THE_HEAD,
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


@pytest.mark.deep
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


@pytest.mark.deep
def test_those_tests_pass_with_every_condition(seen: list[Seen]) -> None:
    failed = [each.text for each in seen if each.mutant == UNCHANGED and each.outcome != "passed"]
    assert failed == []


def test_the_tables_name_only_what_there_is() -> None:
    assert {*CAUGHT_BY, *NEVER_ALONE} <= {*MUTANTS}
    assert not {*CAUGHT_BY} & {*NEVER_ALONE}


def test_every_condition_has_a_name_and_is_used_where_a_mutant_can_be_made_of_it() -> None:
    assert conditions.out_of_reach() == []
