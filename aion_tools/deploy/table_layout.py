"""Check that a stack's table has the layout of stored items that this version of aion reads."""

from aion_core.table.schema import VERSION, VERSION_ATTRIBUTE
from aion_tools.deploy.aws import call, client_of
from aion_tools.deploy.cloudformation import CloudFormationStack, application
from aion_tools.deploy.errors import AwsRefused, DeployError


def check_layout(stack: CloudFormationStack | None) -> None:
    """Raise DeployError, with the next step, if the stack's table has items of another layout.

    One item is read, because all items of a table have the same layout: functions refuse the items of another one.
    """
    table = application(stack).outputs.get("TableName") if stack is not None else None
    if stack is None or not table:
        return
    options = {"ProjectionExpression": "#v", "ExpressionAttributeNames": {"#v": VERSION_ATTRIBUTE}, "Limit": 1}
    try:
        found = call(client_of("dynamodb").scan, TableName=table, **options)["Items"]
    except AwsRefused:
        # Deploy anyway, because credentials for deployments need no permission to read content.
        return
    layout = next((item[VERSION_ATTRIBUTE]["N"] for item in found if VERSION_ATTRIBUTE in item), str(VERSION))
    if layout != str(VERSION):
        raise DeployError(
            f"The table of the stack {stack.name} has items of layout {layout}, and this version of aion reads only layout "
            f"{VERSION}.",
            next_step=f"Deploy another stack, or delete this one with `aion destroy --stack {stack.name} --data`, which "
            "deletes all tasks, then run `aion deploy` again.",
        )
