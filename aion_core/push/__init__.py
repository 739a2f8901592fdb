"""Push notifications: registration of webhooks, delivery of events, and protection against SSRF.

configs.py             PushRegistry: the A2A operations on push configs
registration.py        checks of clients' configs, and their stored form
delivery.py            PushDelivery handles wake-up messages: which configs of a task are to post now
poster.py              EventPoster posts the events of one config in order, under a claim
attempts.py            DeliveryAttempts posts one event once
request.py             the HTTP request of a notification
headers.py             its headers
signing.py             its signature
client.py              the port of the HTTP client, and the outcomes of a post
pinned_client.py       the HTTP client
pinned_transport.py    connections to checked addresses only
ssrf.py                checks of URLs and addresses
special_addresses.py   addresses that are not public
retry_delay.py         delay before the next attempt
circuit_breaker.py     receivers that do not respond
"""
