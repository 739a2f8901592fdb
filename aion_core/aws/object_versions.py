"""Versions of the objects of an S3 bucket."""

from collections.abc import Sequence
from typing import Any

from aion_core.aws.client import AwsClient
from aion_core.errors import StoreError
from aion_core.ports.erasure import ObjectVersion, VersionPage


class S3ObjectVersions:
    """`ports.erasure.ObjectVersions` on S3."""

    def __init__(self, s3: AwsClient, *, bucket: str) -> None:
        self._s3, self._bucket = s3, bucket

    async def page(self, prefix: str, *, after: Any = None) -> VersionPage:
        """See `ports.erasure.ObjectVersions.page`."""
        answer = await self._s3("list_object_versions", Bucket=self._bucket, Prefix=prefix, **(after or {}))
        versions = [_version(each, is_marker=False) for each in answer.get("Versions", ())]
        versions += [_version(each, is_marker=True) for each in answer.get("DeleteMarkers", ())]
        if not answer.get("IsTruncated"):
            return VersionPage(versions)
        following = {"KeyMarker": answer["NextKeyMarker"], "VersionIdMarker": answer["NextVersionIdMarker"]}
        return VersionPage(versions, following)

    async def delete(self, versions: Sequence[tuple[str, str]]) -> None:
        """See `ports.erasure.ObjectVersions.delete`."""
        objects = [{"Key": name, "VersionId": version_id} for name, version_id in versions]
        request = {"Objects": objects, "Quiet": True}
        answer = await self._s3("delete_objects", Bucket=self._bucket, Delete=request)
        if errors := answer.get("Errors"):
            raise StoreError(f"DeleteObjects: {errors[0].get('Code', '')}")


def _version(each: dict[str, Any], *, is_marker: bool) -> ObjectVersion:
    return ObjectVersion(each["Key"], each["VersionId"], each.get("Size", 0), is_marker, each["LastModified"])
