"""`aion console URL`: the browser console for any A2A server.

server.py       the app on this machine: the page, the receiver of webhooks, and the requests to the server
own_origin.py   refuses requests of other pages
remote.py       the server: its card, and its answers to the page's requests
translation.py  the page's requests as calls of the SDK's client, for servers without JSON-RPC of A2A 1.0

The page is that of `aion dev`. It speaks JSON-RPC of A2A 1.0 with this app, and only this app speaks with the server
(docs/decisions/0070).
"""
