"""Deletion of all data of some owners, for `aion data delete`.

bootstrap       builds the service from the settings of a deployment
deletion        deletes what a survey has found, in an order that is safe against late workers
survey          finds the owners' data: items by their attribute `owner`, objects by their folder
found           data of the owners, as found
kinds           names of the kinds of data in reports
stores          the table and the bucket, with the operations that only erasure needs
aws_stores      these stores on AWS
sqlite_stores   these stores in SQLite files
"""
