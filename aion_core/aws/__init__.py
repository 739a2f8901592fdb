"""Ports on AWS: DynamoDB, S3, SQS, KMS and CloudWatch. Only this package imports boto3."""
