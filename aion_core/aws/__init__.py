"""Ports implemented on AWS: DynamoDB, S3, SQS, KMS and CloudWatch. No other package imports boto3."""
