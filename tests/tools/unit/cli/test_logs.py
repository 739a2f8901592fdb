"""`aion logs` on the command line, with emulated log groups."""

import time

from aion_tools.stack.stack import LocalStack
from tests.support import operating


def test_logs_since_time_before_1970_prints_all_logs(moto: LocalStack) -> None:
    moto.client("logs").create_log_group(logGroupName="/aws/lambda/aion-logs-api")
    run = operating.runs(operating.environ_of(moto))
    done = run("logs", "--stack", "aion-logs", "--since", "99999999999d")
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr == "No log lines.\n"
    assert "--since 1d" in run("logs", "--stack", "aion-logs", "--since", "1h").stderr


def test_logs_of_function_named_twice_are_printed_once(moto: LocalStack) -> None:
    logs, group = moto.client("logs"), "/aws/lambda/aion-twice-task"
    logs.create_log_group(logGroupName=group)
    logs.create_log_stream(logGroupName=group, logStreamName="s")
    line = {"timestamp": int(time.time() * 1000), "message": "ended"}
    logs.put_log_events(logGroupName=group, logStreamName="s", logEvents=[line])
    run = operating.runs(operating.environ_of(moto))
    done = run("logs", "--stack", "aion-twice", "--function", "task", "--function", "task", "--json")
    assert done.stdout == "ended\n"
