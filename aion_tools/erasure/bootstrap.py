"""Erasure service of a deployment, built from its settings."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

from aion_core.bootstrap.stores import BLOBS_FILE, TABLE_FILE
from aion_core.clock import SystemClock
from aion_core.settings import Settings
from aion_tools.erasure.stores import ErasableTable, ObjectVersions

if TYPE_CHECKING:
    from aion_tools.erasure.deletion import Erasure


def build_erasure(settings: Settings) -> "Erasure":
    """Return the service that deletes an owner's data. Table and bucket are the only required settings."""
    from aion_tools.erasure.deletion import Erasure

    clock, retention = SystemClock(), timedelta(days=settings.retention_days)
    table: ErasableTable
    objects: ObjectVersions
    if settings.store == "sqlite":
        from aion_core.local.sqlite.blobs import SQLiteBlobs
        from aion_tools.erasure.sqlite_stores import ErasableSQLiteTable, SQLiteObjectVersions

        table = ErasableSQLiteTable(settings.sqlite_folder / TABLE_FILE, clock)
        blobs = SQLiteBlobs(settings.sqlite_folder / BLOBS_FILE, clock, retention=retention)
        objects = SQLiteObjectVersions(blobs.database)
    else:
        from aion_core.aws.client import WORKERS, AwsClient
        from aion_tools.erasure.aws_stores import ErasableDynamoDBTable, S3ObjectVersions

        executor = ThreadPoolExecutor(WORKERS)
        table = ErasableDynamoDBTable(AwsClient("dynamodb", executor), name=settings.table)
        objects = S3ObjectVersions(AwsClient("s3", executor), bucket=settings.bucket)
    return Erasure(table, objects, clock, owner_of_key=owner_of_key, retention=retention)


def owner_of_key(principal: str, tenant: str) -> str:
    """Return the owner id for an API key of this principal and tenant."""
    from aion_core.auth.principal import API_KEY_ISSUER, Principal
    from aion_core.auth.tenants import owner_in

    return owner_in(Principal(API_KEY_ISSUER, principal).owner, tenant)
