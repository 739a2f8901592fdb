"""Streams of a task: live to a client of this process, and from the stored log to readers in others.

broadcast.py       a turn's events and text, for the client of the same process
delta_writer.py    writer of the streamed text, in batches
event_ids.py       the id of an item (SSE), from and to the cursor after it
subscription.py    reader of the log and of these batches
artifact_form.py   the stream of `answer: artifact`, from these items
shared_reads.py    one read for all readers at the same position
"""
