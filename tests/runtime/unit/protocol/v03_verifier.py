"""Program for an environment with a2a-sdk 0.3: reads and verifies cards as its client does.

Run with the file of a public JWK and the files of cards; each printed line is the result for one card.
"""

import asyncio
import json
import sys
from pathlib import Path

import httpx
from a2a.client import A2ACardResolver
from a2a.utils.signing import SignatureVerificationError, create_signature_verifier
from jwt import PyJWK


async def main(key: str, *cards: str) -> None:
    """Print the result of the client's resolver for each card: its fields, or the reason of its rejection."""
    jwk = PyJWK(json.loads(Path(key).read_text()))
    verifier = create_signature_verifier(lambda kid, jku: jwk, [jwk.algorithm_name])
    for card in cards:
        served = httpx.MockTransport(lambda request, card=card: httpx.Response(200, content=Path(card).read_bytes()))
        async with httpx.AsyncClient(transport=served) as http:
            try:
                read = await A2ACardResolver(http, "http://test").get_agent_card(signature_verifier=verifier)
            except SignatureVerificationError as error:
                print(json.dumps({"refused": str(error)}))
            else:
                print(read.model_dump_json(by_alias=True, exclude_none=True))


asyncio.run(main(*sys.argv[1:]))
