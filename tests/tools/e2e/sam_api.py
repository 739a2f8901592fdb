"""What SAM CLI reads of a project for `sam local`, as JSON. Runs with SAM CLI's Python.

`environment TEMPLATE ENV_VARS` prints the processor of each function, and the variables that SAM gives to its container.
`options CONFIG COMMAND …` prints the options that SAM reads for commands of `sam local` from a samconfig.toml, and those
that each command knows.
"""

import importlib
import json
import os
import sys
from pathlib import Path

import click
from samcli.cli.cli_config_file import ConfigProvider
from samcli.commands.local.lib.local_lambda import LocalLambdaRunner
from samcli.lib.providers.sam_function_provider import SamFunctionProvider
from samcli.lib.providers.sam_stack_provider import SamLocalStackProvider


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


if __name__ == "__main__":
    {"environment": environment, "options": options}[sys.argv[1]](*sys.argv[2:])
