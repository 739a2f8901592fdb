"""Functions of a project in containers on this machine, by SAM CLI's `sam local`.

variables  environment variables of the functions
env_file   files with these variables for SAM
"""
