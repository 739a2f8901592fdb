"""Deletion of all data of some owners, for `aion data delete`.

bootstrap       builds the service from the settings of a deployment
deletion        deletes what a survey has found, in an order that is safe against late workers
survey          finds the owners' data in the table and in the bucket
owners          concludes from a scan of the table which partitions and objects are the owners'
found           data of the owners, as found
owned           all kinds of partitions and folders
stores          the table and the bucket, with the operations that only erasure needs
aws_stores      these stores on AWS
sqlite_stores   these stores in SQLite files
"""
