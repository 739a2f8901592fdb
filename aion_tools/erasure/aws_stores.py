"""Stores to erase data from on AWS: the DynamoDB table, and all versions of the objects in the S3 bucket."""

from collections.abc import Sequence
from typing import Any

from aion_core.aws.client import AwsClient
from aion_core.aws.dynamodb_json import encoded_key
from aion_core.aws.dynamodb_table import DynamoDBTable
from aion_core.errors import StoreError
from aion_core.table.item import Key
from aion_tools.erasure.stores import ObjectVersion, VersionPage


class ErasableDynamoDBTable(DynamoDBTable):
    """`ErasableTable` in one DynamoDB table."""

    async def delete_all(self, keys: Sequence[Key]) -> Sequence[Key]:
        """Delete items with one BatchWriteItem. See `ErasableTable.delete_all`."""
        requests = [{"DeleteRequest": {"Key": encoded_key(key)}} for key in keys]
        answer = await self._calls("batch_write_item", RequestItems={self._name: requests})
        left = answer.get("UnprocessedItems", {}).get(self._name, [])
        return [key for key, request in zip(keys, requests, strict=True) if request in left]


class S3ObjectVersions:
    """Access to all versions of the objects in one S3 bucket (`ObjectVersions`)."""

    def __init__(self, s3: AwsClient, *, bucket: str) -> None:
        self._s3, self._bucket = s3, bucket

    async def page(self, prefix: str, *, after: Any = None) -> VersionPage:
        """Return a page of versions and delete markers of S3 objects. See `ObjectVersions.page`."""
        answer = await self._s3("list_object_versions", Bucket=self._bucket, Prefix=prefix, **(after or {}))
        versions = [_version(each, is_marker=False) for each in answer.get("Versions", ())]
        versions += [_version(each, is_marker=True) for each in answer.get("DeleteMarkers", ())]
        if not answer.get("IsTruncated"):
            return VersionPage(versions)
        following = {"KeyMarker": answer["NextKeyMarker"], "VersionIdMarker": answer["NextVersionIdMarker"]}
        return VersionPage(versions, following)

    async def delete(self, versions: Sequence[tuple[str, str]]) -> None:
        """Delete these versions of S3 objects. See `ObjectVersions.delete`."""
        objects = [{"Key": name, "VersionId": version_id} for name, version_id in versions]
        request = {"Objects": objects, "Quiet": True}
        answer = await self._s3("delete_objects", Bucket=self._bucket, Delete=request)
        if errors := answer.get("Errors"):
            raise StoreError(f"DeleteObjects: {errors[0].get('Code', '')}")


def _version(each: dict[str, Any], *, is_marker: bool) -> ObjectVersion:
    return ObjectVersion(each["Key"], each["VersionId"], each.get("Size", 0), is_marker)
