"""Deployment and deletion of a stack, and the log lines of its tasks, for `aion deploy`, `aion destroy` and `aion why`.

sam             runs SAM CLI in a project
sam_install     installs SAM CLI
interrupts      signals while child processes start and end
samconfig       reads samconfig.toml, and writes the user's answers into it
aws             calls AWS
cloudformation  stacks with their nested stacks, and their failures
functions       environment and resources of a deployment's functions
change_sets     planned changes of a stack, and their execution
parameters      parameters of template.yaml and of its nested stack
agent_rights    template parameters with the agents' rights on AWS
images          repositories of container images, and what images exclude
table_layout    refuses a table with another layout of stored items
price           price of an idle month
destroy         deletes a stack and the resources it retains: table, bucket, key, log groups
logs            reads the functions' log groups
errors          failures of a deployment, with remedies
"""
