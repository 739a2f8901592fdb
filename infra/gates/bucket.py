"""The bucket: what lies there is there as long as a row names it, and no longer; what is a user's stays."""

import sys
from collections.abc import Iterator
from typing import Any

from aion_core.template.reader import BUCKET, Template
from infra.gates.code import constants, core
from infra.gates.deployed import Deployed
from infra.gates.table import SHAPE

RETENTION = "AION_RETENTION_DAYS"
# Days: a row goes some time after it has expired, and what it names has to be there as long as it is.
LONGER_THAN_ITS_ROW = 15
# A rule with one of these is not about all that is in its folder.
ONLY_SOME = {"TagFilters", "ObjectSizeGreaterThan", "ObjectSizeLessThan"}


def problems(deployed: Deployed) -> Iterator[str]:
    """Yield what would be taken away too soon, and what never."""
    template = deployed.template
    shape = constants(core(template) / SHAPE)
    for name in template.resources(BUCKET):
        bucket = template.resolved(name)
        if bucket.get("VersioningConfiguration", {}).get("Status") != "Enabled":
            yield f"{name} keeps no versions: what is deleted by mistake is gone"
        if "BucketEncryption" not in bucket:
            yield f"{name} is not encrypted"
        rules = [rule for rule in bucket.get("LifecycleConfiguration", {}).get("Rules", []) if _is_about_all(rule)]
        yield from _replaced(name, rules)
        kept = f"{shape['PERMANENT_FOLDER']}/"
        for rule in rules:
            prefix = rule.get("Prefix", "")
            if _expires(rule) and (kept.startswith(prefix) or prefix.startswith(kept)):
                yield f"{name}: {rule['Id']} takes away what is a user's to keep: its Prefix has to leave out {kept}"
    for days in deployed.plain["Parameters"].get("RetentionDays", {}).get("AllowedValues", []):
        yield from _ended(deployed.with_parameters(RetentionDays=str(days)), shape["RETENTIONS"])


def _ended(template: Template, folders: dict[str, float]) -> Iterator[str]:
    """What tasks need goes when they have gone, however long they are kept."""
    retention = max(map(float, template.environment_values(RETENTION)), default=0.0)
    for name in template.resources(BUCKET):
        lifecycle = template.resolved(name, "LifecycleConfiguration").get("LifecycleConfiguration", {})
        rules = [rule for rule in lifecycle.get("Rules", []) if _is_about_all(rule)]
        for folder, retentions in folders.items():
            yield from _ends(name, rules, folder, retentions * retention)


def _ends(bucket: str, rules: list[dict[str, Any]], folder: str, kept: float) -> Iterator[str]:
    """What lies in a folder outlives each row that names it, and goes then."""
    over = [rule for rule in rules if _expires(rule) and f"{folder}/".startswith(rule.get("Prefix", ""))]
    if not over:
        yield f"{bucket}: what is under {folder}/ stays, and is paid for, for ever: no rule that is enabled expires it"
    for rule in over:
        # A date is over some day, and then takes away what is new too.
        if "ExpirationDate" in rule or int(rule.get("ExpirationInDays", sys.maxsize)) < kept + LONGER_THAN_ITS_ROW:
            yield f"{bucket}: {rule['Id']} takes payloads away before their rows, which are there for {kept:g} days and 15"


def _replaced(bucket: str, rules: list[dict[str, Any]]) -> Iterator[str]:
    if not any("NoncurrentVersionExpiration" in rule and not rule.get("Prefix") for rule in rules):
        yield f"{bucket} keeps for ever what was replaced or deleted: NoncurrentVersionExpiration, without a Prefix"


def _is_about_all(rule: dict[str, Any]) -> bool:
    return rule.get("Status") == "Enabled" and not rule.keys() & ONLY_SOME


def _expires(rule: dict[str, Any]) -> bool:
    return bool(rule.keys() & {"ExpirationInDays", "ExpirationDate"})
