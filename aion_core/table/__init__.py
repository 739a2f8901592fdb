"""The table: one port, which DynamoDB, SQLite and memory implement, and the shapes of what is stored through it.

port.py         Table: reads, conditional writes and transactions of items, with the guarantees of DynamoDB
item.py         items, their keys and indexes
conditions.py   conditions of a write
writes.py       put, update, delete, and the check of an item
refusals.py     a failed condition, a conflict, a reused token
semantics/      the meaning of conditions and changes, for the adapters that have no DynamoDB
keys.py         the keys of all items; no other file makes a key
schema.py       indexes, TTL attribute and folders of the bucket
reads.py        reads of items that have not expired
retries.py      transactions that are planned again after a conflict or a lost response
stamp.py        the attributes that every item has: version, owner and TTL
times.py        the times of one write
ttl.py          TTLs
blobs.py        the port of payloads that are too large for an item
payloads.py     payloads of any size in an item
cipher.py       the port of the deployment's encryption
"""
