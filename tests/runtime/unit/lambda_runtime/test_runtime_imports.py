import subprocess
import sys


def test_runtime_loop_imports_no_web_framework_or_aws_client() -> None:
    code = "import sys, aion_core.lambda_runtime.loop; print(*sys.modules)"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    )
    assert loaded.isdisjoint({"httpx", "httpcore", "boto3", "botocore", "fastapi", "starlette", "pydantic", "a2a"})
    ours = {name for name in loaded if name.startswith("aion_core")}
    assert all(name in {"aion_core"} or name.startswith("aion_core.lambda_runtime") for name in ours)
