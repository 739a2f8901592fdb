"""Reads and changes of a deployment for the operator's commands.

bootstrap             builds the services from the settings of a deployment
waiting_tasks         tasks that wait for an answer, and the classes in their state
inspection            reads contexts, tasks, their events and deliveries
health                checks the table, bucket, keys, secrets and triggers
dead_letters          messages of a queue that could not be handled
sqs_dead_letters      dead letters of an SQS queue
sqlite_dead_letters   dead letters of a queue in a SQLite file
"""
