"""`aion deploy`, `aion destroy` and `aion logs`: a stack's life on AWS, and what its functions log.

sam_cli     SAM CLI: the one on PATH, or one in an environment of its own
sam         runs SAM CLI, and finds in its output what matters
samconfig   reads samconfig.toml, and writes answers into it
aws         calls AWS
stacks      a stack as CloudFormation knows it, with its nested stacks, and its failures
changes     a change set: made by SAM, summed up, executed
price       what an idle month costs
kept        what outlives its stack: table, bucket, key, log groups
destroy     deletes a stack, and what outlives it
logs        reads the functions' log groups
log_lines   a line of a log as people read it
errors      what failed, which lines say so, what to do
"""
