"""What resources are called at a place: what Ref and GetAtt give for them."""

from collections.abc import Callable
from dataclasses import dataclass

FUNCTION = "AWS::Serverless::Function"
TABLE = "AWS::DynamoDB::Table"
QUEUE = "AWS::SQS::Queue"
BUCKET = "AWS::S3::Bucket"
KEY = "AWS::KMS::Key"
ROLE = "AWS::IAM::Role"
LOG_GROUP = "AWS::Logs::LogGroup"
STACK = "AWS::CloudFormation::Stack"
TOPIC = "AWS::SNS::Topic"
ALARM = "AWS::CloudWatch::Alarm"


@dataclass(frozen=True)
class Place:
    """Where the template's resources are made; their names follow from it."""

    account: str
    region: str
    endpoint: str
    stack_name: str


NAME_PROPERTY = {
    FUNCTION: "FunctionName",
    TABLE: "TableName",
    QUEUE: "QueueName",
    BUCKET: "BucketName",
    ROLE: "RoleName",
    LOG_GROUP: "LogGroupName",
    ALARM: "AlarmName",
}
"""Which property names a resource; without it CloudFormation makes a name of the stack's and the logical id."""

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
    # A key's own id is given when it is made: here it is known by an alias, as which KMS takes it too.
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
"""What there is to ask of a resource: nothing stands for Ref."""
