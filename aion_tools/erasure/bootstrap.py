"""Erasure service of a deployment, built from its settings."""

from concurrent.futures import ThreadPoolExecutor
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

    table: ErasableTable
    objects: ObjectVersions
    if settings.store == "sqlite":
        from aion_core.local.sqlite.blobs import SQLiteBlobs
        from aion_tools.erasure.sqlite_stores import ErasableSQLiteTable, SQLiteObjectVersions

        table = ErasableSQLiteTable(settings.sqlite_folder / TABLE_FILE, SystemClock())
        objects = SQLiteObjectVersions(SQLiteBlobs(settings.sqlite_folder / BLOBS_FILE, SystemClock()).database)
    else:
        from aion_core.aws.client import WORKERS, AwsClient
        from aion_tools.erasure.aws_stores import ErasableDynamoDBTable, S3ObjectVersions

        executor = ThreadPoolExecutor(WORKERS)
        table = ErasableDynamoDBTable(AwsClient("dynamodb", executor), name=settings.table)
        objects = S3ObjectVersions(AwsClient("s3", executor), bucket=settings.bucket)
    return Erasure(table, objects)
