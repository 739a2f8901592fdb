"""Large payloads in S3."""

import re
from collections.abc import Mapping, Sequence

from aion_core.aws.client import AwsClient, NoSuchObject
from aion_core.errors import StoreUnavailable
from aion_core.table.refusals import WriteRefused

_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(; ?[\w.+-]+=[\w.+-]+)*", re.ASCII)


class S3Blobs:
    """Store of large payloads in one S3 bucket (`Blobs`)."""

    bytes_cost_money = True

    def __init__(self, s3: AwsClient, *, bucket: str) -> None:
        self._s3, self._bucket = s3, bucket

    async def put(self, name: str, content: bytes) -> None:
        """Store the bytes as an S3 object of this name. See `Blobs.put`."""
        await self._s3("put_object", Bucket=self._bucket, Key=name, Body=content)

    async def put_new(self, name: str, content: bytes, metadata: Mapping[str, str], *, media_type: str = "") -> bool:
        """Store the bytes and metadata unless the S3 object exists. See `Blobs.put_new`."""
        try:
            await self._s3(
                "put_object",
                Bucket=self._bucket,
                Key=name,
                Body=content,
                ContentType=media_type if _MEDIA_TYPE.fullmatch(media_type) else "application/octet-stream",
                Metadata=dict(metadata),
                IfNoneMatch="*",
            )
        except WriteRefused as refused:
            if refused.is_conflict:
                raise StoreUnavailable("PutObject: another write of the object is in progress.") from refused
            return False
        return True

    async def get(self, name: str) -> bytes | None:
        """Return the content of the S3 object, or None. See `Blobs.get`."""
        try:
            return await self._s3.read("get_object", "Body", Bucket=self._bucket, Key=name)
        except NoSuchObject:
            return None

    async def metadata(self, name: str) -> Mapping[str, str] | None:
        """Return the metadata of the S3 object, or None. See `Blobs.metadata`."""
        try:
            found = await self._s3("head_object", Bucket=self._bucket, Key=name)
        except NoSuchObject:
            return None
        metadata: dict[str, str] = found["Metadata"]
        return metadata

    async def names(self, prefix: str) -> Sequence[str]:
        """Return the names of all S3 objects with this prefix. See `Blobs.names`."""
        names: list[str] = []
        start: dict[str, str] = {}
        while True:
            page = await self._s3("list_objects_v2", Bucket=self._bucket, Prefix=prefix, **start)
            names += [each["Key"] for each in page.get("Contents", [])]
            if not page.get("IsTruncated"):
                return names
            start = {"ContinuationToken": page["NextContinuationToken"]}

    async def delete(self, name: str) -> None:
        """Delete the S3 object of this name. See `Blobs.delete`."""
        await self._s3("delete_object", Bucket=self._bucket, Key=name)
