"""Ports implemented on AWS: DynamoDB, S3, SQS, KMS, CloudWatch, Secrets Manager, SSM.

No other package of `aion_core` imports boto3.

client.py                 boto3 clients for asyncio
dynamodb_table.py         `Table` over DynamoDB
dynamodb_expressions.py   conditions and changes as expressions of its requests
dynamodb_json.py          items in DynamoDB JSON
blobs.py                  large payloads in S3
queues.py                 SQS queues of wake-up messages
cipher.py                 envelope encryption with KMS
secrets.py                secrets of Secrets Manager and SSM Parameter Store
request_signature.py      signed requests to another deployment
metrics.py                metrics as log lines for CloudWatch
log_formatter.py          log records as JSON lines for CloudWatch Logs
"""
