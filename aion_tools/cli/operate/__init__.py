"""Commands for stored tasks, push notifications and dead letters.

tasks, push, dlq    the commands
task_names          names of tasks: the id, a part of it, `last`
report              everything stored about a task
dead_letters        dead letters, each with the work that it still has to start
"""
