"""Ports on AWS: DynamoDB, S3, SQS, KMS and CloudWatch. The only importer of boto3."""
