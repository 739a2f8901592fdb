"""Names and ARNs of resources in a template, as returned by Ref and GetAtt."""

from collections.abc import Callable

from msgspec import Struct

FUNCTION = "AWS::Serverless::Function"
TABLE = "AWS::DynamoDB::Table"
QUEUE = "AWS::SQS::Queue"
BUCKET = "AWS::S3::Bucket"
KEY = "AWS::KMS::Key"
ROLE = "AWS::IAM::Role"
MANAGED_POLICY = "AWS::IAM::ManagedPolicy"
LOG_GROUP = "AWS::Logs::LogGroup"
STACK = "AWS::CloudFormation::Stack"
APPLICATION = "AWS::Serverless::Application"
TOPIC = "AWS::SNS::Topic"
ALARM = "AWS::CloudWatch::Alarm"


class Place(Struct, frozen=True):
    """Account, region, endpoint and stack name of a template's resources, for the resources' names and ARNs."""

    account: str
    region: str
    endpoint: str
    stack_name: str


BUILD_PLACE = Place(account="000000000000", region="us-east-1", endpoint="", stack_name="build")
"""Place for readers of a template that is not deployed, such as a build."""


NAME_PROPERTY = {
    FUNCTION: "FunctionName",
    TABLE: "TableName",
    QUEUE: "QueueName",
    BUCKET: "BucketName",
    ROLE: "RoleName",
    LOG_GROUP: "LogGroupName",
    ALARM: "AlarmName",
}
"""Name of the property that names a resource, by resource type.

Without this property, the resource's name consists of the stack's name and the logical id.
"""

ATTRIBUTES: dict[str, dict[str | None, Callable[[Place, str], str]]] = {
    FUNCTION: {
        None: lambda place, name: name,
        "Arn": lambda place, name: f"arn:aws:lambda:{place.region}:{place.account}:function:{name}",
    },
    TABLE: {
        None: lambda place, name: name,
        "Arn": lambda place, name: f"arn:aws:dynamodb:{place.region}:{place.account}:table/{name}",
    },
    QUEUE: {
        None: lambda place, name: f"{place.endpoint}/{place.account}/{name}",
        "QueueUrl": lambda place, name: f"{place.endpoint}/{place.account}/{name}",
        "QueueName": lambda place, name: name,
        "Arn": lambda place, name: f"arn:aws:sqs:{place.region}:{place.account}:{name}",
    },
    BUCKET: {
        None: lambda place, name: name,
        "Arn": lambda place, name: f"arn:aws:s3:::{name}",
    },
    # Use an alias as the key's name, because KMS generates the key's id.
    KEY: {
        None: lambda place, name: f"alias/{name}",
        "Arn": lambda place, name: f"arn:aws:kms:{place.region}:{place.account}:alias/{name}",
    },
    ROLE: {
        None: lambda place, name: name,
        "Arn": lambda place, name: f"arn:aws:iam::{place.account}:role/{name}",
    },
    ALARM: {
        None: lambda place, name: name,
    },
    TOPIC: {
        None: lambda place, name: f"arn:aws:sns:{place.region}:{place.account}:{name}",
    },
    LOG_GROUP: {
        None: lambda place, name: name,
        "Arn": lambda place, name: f"arn:aws:logs:{place.region}:{place.account}:log-group:{name}:*",
    },
}
"""Functions that compute the value of GetAtt, by resource type and attribute. The attribute None stands for Ref."""
