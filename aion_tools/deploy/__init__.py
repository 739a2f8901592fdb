"""Deployment and deletion of a stack, and its functions' logs, for `aion deploy`, `aion destroy` and `aion logs`.

sam             SAM CLI: its installation, and its runs in a project
samconfig       reads samconfig.toml, and writes the user's answers into it
aws             calls AWS
cloudformation  stacks with their nested stacks, their failures, and change sets
price           price of an idle month
destroy         deletes a stack and the resources it retains: table, bucket, key, log groups
logs            reads the functions' log groups
errors          failures of a deployment, with remedies
"""
