"""Start AWS's runtime client. The function's modules come before those of the runtime on the import path."""

import os
import runpy
import sys

sys.path[0] = os.environ.get("LAMBDA_RUNTIME_DIR", "/var/runtime")
sys.path.insert(0, os.environ.get("LAMBDA_TASK_ROOT", "/var/task"))
sys.argv = ["bootstrap.py", os.environ["_HANDLER"]]
runpy.run_module("awslambdaric", run_name="__main__")
