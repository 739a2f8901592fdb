"""Functions of a project in containers on this machine, by SAM CLI's `sam local`.

variables   environment variables of the functions
env_file    files with these variables for SAM
engine      the container engine
reach       the address of this machine for containers
packages    builds the functions for the engine's processor
child       a `sam local` command as a child process
invocation  invokes a function in its container
server      `aion sam-local` from start to end
greeting    its start message
"""
