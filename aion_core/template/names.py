"""Names and ARNs of resources: the values of Ref and GetAtt."""

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
    """Account, region, endpoint and stack of the resources; their names follow from it."""

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
"""Property with the resource's name, by type; by default the name consists of stack name and logical id."""

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
    # KMS generates the id of a key; it also accepts this alias.
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
"""Values of GetAtt by type and attribute; None is the value of Ref."""
