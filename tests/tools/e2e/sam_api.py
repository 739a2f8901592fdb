"""`sam local start-api` without containers: an emulator runs the function. Runs with SAM CLI's Python.

`environment TEMPLATE ENV_VARS` prints the processor of each function, and the variables that SAM gives to its container.
`options CONFIG COMMAND …` prints the options that SAM reads for commands of `sam local` from a samconfig.toml, and those
that each command knows. `serve TEMPLATE URL` prints the port of SAM's local API server; the server posts each Lambda event to
the URL.
"""

import importlib
import json
import os
import sys
from pathlib import Path

import click
import requests
from samcli.cli.cli_config_file import ConfigProvider
from samcli.commands.local.lib.local_lambda import LocalLambdaRunner
from samcli.lib.providers.api_provider import ApiProvider
from samcli.lib.providers.sam_function_provider import SamFunctionProvider
from samcli.lib.providers.sam_stack_provider import SamLocalStackProvider
from samcli.local.apigw.local_apigw_service import LocalApigwService
from werkzeug.serving import make_server


class EmulatedLambda(LocalLambdaRunner):
    """SAM invoker that posts each event to the URL of the runtime emulator, not to a container."""

    def __init__(self, url: str) -> None:
        self._url = url

    def invoke(self, function_identifier, event, tenant_id=None, stdout=None, stderr=None):
        answer = requests.post(self._url, data=event.encode(), timeout=300)
        stdout.write_str(answer.content.decode())
        stdout.flush()

    def is_debugging(self) -> bool:
        return False


def environment(template: str, env_vars: str) -> None:
    stacks, _ = SamLocalStackProvider.get_stacks(template)
    functions = SamFunctionProvider(stacks)
    values = json.loads(Path(env_vars).read_text())
    runner = LocalLambdaRunner(None, functions, os.getcwd(), os.getcwd(), env_vars_values=values)
    found = {
        function.name: {"architecture": function.architecture, "environment": runner._make_env_vars(function).resolve()}
        for function in functions.get_all()
    }
    print(json.dumps(found))


def options(config: str, *commands: str) -> None:
    found = {}
    for command in commands:
        cli = importlib.import_module(f"samcli.commands.local.{command.replace('-', '_')}.cli").cli
        with click.Context(cli):
            read = ConfigProvider(section="parameters")(config, "default", ["local", command])
        found[command] = {"read": read, "known": [option.name for option in cli.params]}
    print(json.dumps(found))


def serve(template: str, url: str) -> None:
    stacks, _ = SamLocalStackProvider.get_stacks(template)
    service = LocalApigwService(ApiProvider(stacks).api, EmulatedLambda(url), host="127.0.0.1", port=0)
    service.create()
    server = make_server("127.0.0.1", 0, service._app, threaded=True)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    {"environment": environment, "options": options, "serve": serve}[sys.argv[1]](*sys.argv[2:])
