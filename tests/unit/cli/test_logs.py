"""`aion logs` on the command line, with emulated log groups."""

from aion_core.local.stack import LocalStack
from tests.support import operating


def test_logs_since_before_1970_are_all_logs(moto: LocalStack) -> None:
    moto.client("logs").create_log_group(logGroupName="/aws/lambda/aion-logs-api")
    run = operating.runs(operating.environ_of(moto))
    done = run("logs", "--stack", "aion-logs", "--since", "99999999999d")
    assert (done.exit_code, done.output) == (0, "")
