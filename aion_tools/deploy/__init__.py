"""Deployment and deletion of a stack, and the log lines of its tasks, for `aion deploy`, `aion destroy` and `aion why`.

sam             runs SAM CLI in a project
sam_install     installs SAM CLI
interrupts      signals while child processes start and end
samconfig       reads samconfig.toml, and writes the user's answers into it
aws             calls AWS
cloudformation  stacks with their status and resources
failures        why the last operation of a stack has failed
functions       environment and resources of a deployment's functions
change_sets     planned changes of a stack and of its nested stacks
parameters      parameters of template.yaml and of its nested stack
agent_rights    template parameters with the agents' rights on AWS
table_layout    refuses a table with another layout of stored items
price           price of an idle month
stored_data     the table, bucket and key that the deletion of a stack retains
logs            reads the functions' log groups
errors          errors of a deployment
"""
