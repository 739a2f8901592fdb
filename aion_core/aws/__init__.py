"""The ports on AWS: DynamoDB, S3 and SQS. The only importer of boto3."""
