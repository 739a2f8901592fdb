"""Contract of `Cipher`, in memory and by KMS."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from aion_core.aws.cipher import CACHED_KEYS, KEY_LIFE, KMSCipher
from aion_core.aws.client import AwsClient
from aion_core.errors import StoreCorrupt, StoreError, StoreUnavailable
from aion_core.local.memory.cipher import MemoryCipher
from aion_core.table.cipher import Cipher
from tests.support.clock import ManualClock
from tests.support.databases import Stack

pytestmark = pytest.mark.each_database


def by_kms(stack: Stack, clock: ManualClock, *, client: Any = None, key: str | None = None) -> KMSCipher:
    kms = AwsClient("kms", ThreadPoolExecutor(4), client=client or stack.client("kms"))
    return KMSCipher(kms, clock, key=key or stack.environment("TaskFunction")["AION_KMS_KEY"])


@pytest.fixture
def cipher(adapter: Stack | None, clock: ManualClock) -> Cipher:
    return MemoryCipher() if adapter is None else by_kms(adapter, clock)


@pytest.mark.parametrize("content", [b"", b"token", bytes(range(256)) * 4000])
async def test_encrypted_content_is_decrypted(cipher: Cipher, content: bytes) -> None:
    encrypted = await cipher.encrypt(content, about="a place")
    assert await cipher.decrypt(encrypted, about="a place") == content
    assert not content or content not in encrypted


async def test_equal_contents_have_different_ciphertexts(cipher: Cipher) -> None:
    assert len({await cipher.encrypt(b"token", about="a place") for _ in range(50)}) == 50


async def test_ciphertext_moved_to_other_item_raises_store_corrupt(cipher: Cipher) -> None:
    encrypted = await cipher.encrypt(b"token", about="mine")
    with pytest.raises(StoreCorrupt):
        await cipher.decrypt(encrypted, about="theirs")


async def test_changed_or_truncated_ciphertext_raises_store_error(cipher: Cipher) -> None:
    encrypted = await cipher.encrypt(b"token", about="a place")
    for place in (-1, -len(b"token") - 20, len(encrypted) // 2, 0):
        changed = bytearray(encrypted)
        changed[place] ^= 1
        # Expect StoreError, the base class: for a changed data key, KMS returns AccessDenied or InvalidCiphertext.
        with pytest.raises(StoreError):
            await cipher.decrypt(bytes(changed), about="a place")
    for cut in (encrypted[:-1], encrypted[: len(encrypted) // 2], encrypted[:5], encrypted[:1], b""):
        with pytest.raises(StoreError):
            await cipher.decrypt(cut, about="a place")


async def test_another_process_decrypts_content(stack: Stack, clock: ManualClock) -> None:
    encrypted = await by_kms(stack, clock).encrypt(b"token", about="a place")
    assert await by_kms(stack, clock).decrypt(encrypted, about="a place") == b"token"


async def test_other_kms_key_does_not_decrypt_content(stack: Stack, clock: ManualClock) -> None:
    encrypted = await by_kms(stack, clock).encrypt(b"token", about="a place")
    other = stack.client("kms").create_key()["KeyMetadata"]["Arn"]
    with pytest.raises(StoreError):
        await by_kms(stack, clock, key=other).decrypt(encrypted, about="a place")


async def test_data_key_is_cached_between_kms_requests(stack: Stack, clock: ManualClock) -> None:
    asked: Counter[str] = Counter()
    client = stack.client("kms")
    client.meta.events.register("before-call.kms", lambda model, **_: asked.update([model.name]))
    writer, reader = by_kms(stack, clock, client=client), by_kms(stack, clock, client=client)
    encrypted = await asyncio.gather(*(writer.encrypt(b"token", about=f"place {n}") for n in range(5)))
    assert asked == {"GenerateDataKey": 1}
    for by in (writer, reader):
        opened = await asyncio.gather(*(by.decrypt(each, about=f"place {n}") for n, each in enumerate(encrypted)))
        assert opened == 5 * [b"token"]
    assert asked == {"GenerateDataKey": 1, "Decrypt": 1}
    clock.move(KEY_LIFE.total_seconds())
    later = await writer.encrypt(b"token", about="later")
    assert await writer.decrypt(encrypted[0], about="place 0") == await reader.decrypt(later, about="later") == b"token"
    assert asked == {"GenerateDataKey": 2, "Decrypt": 2}


async def test_data_key_cache_is_bounded(stack: Stack, clock: ManualClock) -> None:
    cipher = by_kms(stack, clock)
    first = await cipher.encrypt(b"token", about="a place")
    for _ in range(CACHED_KEYS):
        clock.move(KEY_LIFE.total_seconds())
        await cipher.encrypt(b"token", about="a place")
    assert len(cipher._cache) == CACHED_KEYS
    assert await cipher.decrypt(first, about="a place") == b"token"


async def test_transient_kms_error_raises_store_unavailable(clock: ManualClock, stack: Stack) -> None:
    client = stack.client("kms")

    class FakeResponse:
        status_code = 500

    def fails(**_: Any) -> Any:
        return FakeResponse(), {
            "ResponseMetadata": {"HTTPStatusCode": 500},
            "Error": {"Code": "KMSInternalException", "Message": "made up by a test"},
        }

    encrypted = await by_kms(stack, clock).encrypt(b"token", about="a place")
    client.meta.events.register("before-call.kms", fails)
    with pytest.raises(StoreUnavailable):
        await by_kms(stack, clock, client=client).decrypt(encrypted, about="a place")
    with pytest.raises(StoreUnavailable):
        await by_kms(stack, clock, client=client).encrypt(b"token", about="a place")


def test_cipher_works_on_two_event_loops(stack: Stack, clock: ManualClock) -> None:
    """Share one cipher between threads with their own event loops, as tests with concurrent invocations do."""
    cipher = by_kms(stack, clock)

    def batch(number: int) -> set[bytes]:
        async def seal_and_open(place: str) -> bytes:
            return await cipher.decrypt(await cipher.encrypt(b"token", about=place), about=place)

        async def all_at_once() -> set[bytes]:
            return set(await asyncio.gather(*(seal_and_open(f"{number}.{n}") for n in range(8))))

        return asyncio.run(all_at_once())

    with ThreadPoolExecutor(4) as batches:
        for _ in range(5):
            clock.move(KEY_LIFE.total_seconds())
            assert set.union(*batches.map(batch, range(4))) == {b"token"}
