"""Whether each function has the time that its work takes: what is cut off is begun again, and cut off again."""

from collections.abc import Iterator

from aion_core.template.reader import FUNCTION
from infra.gates.code import constants, core, with_handler
from infra.gates.deployed import Deployed, timeout

# Seconds. A regional REST API cuts an answer that is silent for so long.
LONGEST_SILENCE = 300
# Until the sweep is called again: one that takes no longer is never cut off.
BETWEEN_SWEEPS = 60


def problems(deployed: Deployed) -> Iterator[str]:
    """Yield which functions would be cut off in the midst of what they do."""
    template, code = deployed.template, core(deployed.template)
    delivery, webhooks = constants(code / "push/delivery.py"), constants(code / "ports/webhooks.py")
    share = delivery["SHARE_SECONDS"] + webhooks["POST_SECONDS"] + delivery["LEAVE_SECONDS"]
    for function in with_handler(template, "handlers.deliver_push.handler"):
        if timeout(template, function) < share:
            yield f"{function} has {timeout(template, function)} s, and one bell's posts may take {share:g}: later ones wait"
    for function in with_handler(template, "handlers.sweep.handler"):
        if timeout(template, function) < BETWEEN_SWEEPS:
            yield f"{function} is cut off after {timeout(template, function)} s, and has {BETWEEN_SWEEPS} until the next"
    longest = float(template.document["Parameters"]["BlockingWait"].get("MaxValue", "inf"))
    if longest >= LONGEST_SILENCE:
        yield f"BlockingWait may be {longest:g} s, and the API cuts an answer that is silent for {LONGEST_SILENCE}"
    for function in template.resources(FUNCTION):
        if template.written_events(function, "Api") and timeout(template, function) <= longest:
            yield f"{function} is cut off after {timeout(template, function)} s, and BlockingWait may be {longest:g}"
