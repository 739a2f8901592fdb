"""Large payloads on S3, with the promises of `ports.Blobs`."""

from aion_core.aws.client import Calls, Missing


class S3Blobs:
    """`ports.Blobs` in one bucket."""

    def __init__(self, s3: Calls, *, bucket: str) -> None:
        self._s3, self._bucket = s3, bucket

    async def put(self, name: str, content: bytes) -> None:
        """See `ports.Blobs.put`."""
        await self._s3("put_object", Bucket=self._bucket, Key=name, Body=content)

    async def get(self, name: str) -> bytes | None:
        """See `ports.Blobs.get`."""
        try:
            return await self._s3.read("get_object", "Body", Bucket=self._bucket, Key=name)
        except Missing:
            return None

    async def delete(self, name: str) -> None:
        """See `ports.Blobs.delete`."""
        await self._s3("delete_object", Bucket=self._bucket, Key=name)
