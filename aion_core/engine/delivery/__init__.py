"""Deliveries to webhooks: the progress of each push config, and its retries.

records.py         a delivery, a claim of it, an expired timer
transitions.py     transitions of a delivery
readiness.py       which delivery is ready, and whose turn it is
rows.py            a delivery as attributes of its config's item
items.py           push configs as encrypted items
store.py           DeliveryStore claims deliveries and moves them on
push_configs.py    PushConfigs adds what clients do: put, get, list, delete
"""
