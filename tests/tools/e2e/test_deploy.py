"""`aion deploy` and `aion destroy` with the real SAM CLI and template, on an emulated CloudFormation.

`containers/test_deployment.py` tests a stack with running functions: here, a server of this process is at the deployed URL.
tests/support/ministack_program.py and docs/deploy.md list the differences between the emulator and AWS.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from aion_core.clock import SystemClock
from aion_tools.cli.steps import INDENT
from aion_tools.deploy import sam_install
from aion_tools.programs import machine_architecture
from aion_tools.shipped import shipped
from tests.support import ministack
from tests.support.savers import DynamoDBSavers
from tests.support.server import ROOT
from tests.support.shop import HEAD, MODELS, Shop, importing
from tests.support.shop import waiting as a_task_waits
from tests.tools.e2e.sam_project import SamProject
from tests.tools.unit.cli.checks.doctor_command import ANSWERING, OPEN, ServedAgents

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the runtime emulator is a program for Linux"),
    # Allow fifteen minutes, because the first test installs SAM if necessary.
    pytest.mark.timeout(900),
]

AGENT = (ROOT / "tests" / "support" / "e2e" / "agents" / "taking_its_time.py").read_text()
CONFIG = "aion:\n  agents: {counting: {path: agent.py:graph, name: Counting}}\n"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with ministack.serving(ministack.DEPLOYMENT) as endpoint:
        yield endpoint


@pytest.fixture
def project(tmp_path: Path, endpoint: str) -> SamProject:
    return SamProject.made(tmp_path / "project", endpoint, {"agent.py": AGENT}, aion_yaml=CONFIG)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory, endpoint: str) -> SamProject:
    """Deploy a project to the stack `standing` once for several tests."""
    folder = tmp_path_factory.mktemp("deployed") / "project"
    project = SamProject.made(folder, endpoint, {"agent.py": AGENT}, aion_yaml=CONFIG)
    project.deployed("standing")
    return project


@dataclass(frozen=True)
class RepliedProject:
    """Project whose deployment has requested a first reply."""

    project: SamProject
    url: str
    printed: str


@pytest.fixture(scope="module")
def replied(tmp_path_factory: pytest.TempPathFactory, endpoint: str) -> RepliedProject:
    """Deploy a project to the stack `kept`, whose URL is that of a server in this process."""
    folder = tmp_path_factory.mktemp("replied")
    project = SamProject.made(folder / "project", endpoint, {"agent.py": AGENT}, aion_yaml=CONFIG)
    with ServedAgents(folder, OPEN, ANSWERING) as url:
        done = project.run("deploy", "--yes", "--stack", "kept", f"--parameter=BaseUrl={url}")
    assert done.returncode == 0, done.stdout + done.stderr
    return RepliedProject(project, url, done.stdout)


# --- From a folder to a streamed reply ---


def test_deploy_prints_streamed_reply_and_price(replied: RepliedProject) -> None:
    assert "Successfully created/updated stack - kept in us-east-1" in replied.printed
    assert f"{INDENT}You said: Hello, who is there?\n" in replied.printed
    assert "ok       first reply: Helper answered, streamed, after " in replied.printed
    assert f"  URL   {replied.url}\n" in replied.printed
    price = json.loads((shipped() / "aion_tools" / "deploy" / "idle_price.json").read_text())
    assert f"  idle  about {price['together']:.2f} USD a month" in replied.printed


@pytest.mark.deep
def test_deploy_fails_if_first_message_is_refused(deployed: SamProject, tmp_path: Path) -> None:
    keys = OPEN.replace("aion: {", "aion: {security: {schemes: {key: {type: api-key}}}, ")
    with ServedAgents(tmp_path, keys, ANSWERING) as url:
        refused = deployed.run("deploy", "--yes", "--stack", "standing", f"--parameter=BaseUrl={url}")
    assert refused.returncode == 1
    assert "FAILED   first reply" in refused.stdout
    assert "The agent doesn't accept the credentials (401)" in refused.stderr
    assert "aws logs tail /aws/lambda/standing-api" in refused.stderr
    assert "standing is deployed." in refused.stdout


# --- Questions ---


def test_account_is_asked_first(project: SamProject) -> None:
    code, shown = project.typed("deploy", answers=["n"])
    assert code == 1, shown
    assert (
        "account: 000000000000, your default credentials, us-east-1\nDeploy aion-dev to account 000000000000" in shown
    )
    assert "doctor" not in shown


@pytest.mark.deep
def test_plan_lists_changes_and_stores_answers_only(project: SamProject) -> None:
    config = project.folder / "samconfig.toml"
    config.write_text(config.read_text().replace('stack_name = "aion-dev"\n', ""))
    before = config.read_text()
    declared = "  security: {schemes: {key: {type: api-key}}, require: [{key: []}]}\n"
    (project.folder / "aion.yaml").write_text(f"aion:\n{declared}  agents: {{counting: {{path: agent.py:graph}}}}\n")
    code, shown = project.typed("deploy", "--plan", answers=["mine", "1", "ops@example.com"])
    assert code == 0, shown
    assert "callers declared in aion.yaml, by key" in shown
    _, planned = shown.split("Changes of mine with its nested stacks:\n")
    assert planned == "  Add     Aion (AWS::CloudFormation::Stack)\n  Add     Orders (AWS::DynamoDB::Table)\n"
    assert project.status("mine") == ""
    comments = [line for line in before.splitlines() if line.startswith("#")]
    assert [line for line in config.read_text().splitlines() if line.startswith("#")] == comments
    saved = tomlkit.parse(config.read_text()).unwrap()["default"]["deploy"]["parameters"]
    assert saved["stack_name"] == "mine"
    assert saved["parameter_overrides"][-2:] == ["AlarmEmail=ops@example.com", "ApiAuthorizer=NONE"]


@pytest.mark.deep
def test_changes_are_confirmed_if_samconfig_says_so(project: SamProject) -> None:
    """Give the answers of the environment prod: the account, the e-mail address, and the changes."""
    code, shown = project.typed("deploy", "--env", "prod", "--stack", "asked", answers=["y", "", "n"])
    assert (code, "  Add     Orders (AWS::DynamoDB::Table)\nDeploy these changes? [Y/n]: " in shown) == (1, True), shown
    assert project.status("asked") == ""


@pytest.mark.deep
def test_deploy_lets_functions_read_secrets_named_in_aion_yaml(project: SamProject) -> None:
    """Deploy with the account of the environment, which precedes the profile of samconfig.toml."""
    with (project.folder / "aion.yaml").open("a") as file:
        file.write("  secrets: {OPENAI_API_KEY: openai}\n")
    config = project.folder / "samconfig.toml"
    config.write_text(config.read_text().replace("resolve_s3 = true\n", 'resolve_s3 = true\nprofile = "staging"\n'))
    done = project.run("deploy", "--yes", "--no-reply", "--stack", "secretive", OPENAI_API_KEY="sk-not-a-real-key")
    assert done.returncode == 0, done.stdout + done.stderr
    values = project.parameters(project.application("secretive"))
    assert values["AgentSecrets"] == "arn:aws:secretsmanager:us-east-1:000000000000:secret:openai-??????"
    assert "sk-not-a-real-key" not in done.stdout + done.stderr + config.read_text()


# --- Without a terminal, and failures ---


def test_deploy_without_terminal_requires_yes_option(project: SamProject) -> None:
    done = project.run("deploy")
    assert done.returncode == 2
    assert "give --yes to deploy without questions" in done.stderr


def test_broken_agent_stops_deploy_before_build(project: SamProject) -> None:
    (project.folder / "agent.py").write_text("import nothing_of_this_name\n")
    done = project.run("deploy", "--yes", "--stack", "broken")
    assert done.returncode == 1
    assert "FAILED   doctor" in done.stdout
    assert "nothing_of_this_name" in done.stdout
    assert "Nothing was built or deployed." in done.stderr
    assert not (project.folder / ".aws-sam").exists()


@pytest.mark.deep
def test_deploy_ends_with_output_of_failed_build(project: SamProject) -> None:
    (project.folder / "Makefile").write_text("build-%:\n\t@echo there is no compiler for this >&2; exit 3\n")
    in_aion(project, "SubnetIds: subnet-0a", "SecurityGroupIds: sg-0a")
    done = project.run("deploy", "--yes", "--stack", "unbuilt", "--parameter", "FunctionUrlAuth=AWS_IAM")
    assert done.returncode == 1
    assert "warning function url: " in done.stdout
    assert "there is no compiler for this" in done.stderr
    assert done.stderr.endswith("Error: `sam build` failed, and its output above has the reason.\n")


def in_aion(project: SamProject, *lines: str) -> None:
    """Add lines to the parameters of Aion in the project's template.yaml."""
    template = project.folder / "template.yaml"
    name = "        Name: !Ref AWS::StackName\n"
    template.write_text(template.read_text().replace(name, name + "".join(f"        {each}\n" for each in lines), 1))


def test_deploy_refuses_nested_parameters_before_the_build(project: SamProject) -> None:
    """Refuse by the rules and patterns of the nested stack, which CloudFormation evaluates in the middle of a deployment."""
    in_aion(project, "SubnetIds: subnet-0a", "PushPorts: https")
    done = project.run("deploy", "--yes", "--stack", "refused")
    assert done.returncode == 1
    assert done.stderr == (
        "Error: CloudFormation would refuse these parameters:\n"
        "  PushPorts: 'https' does not match ([0-9]+(,[0-9]+)*)?. Allowed ports of webhooks, separated by commas. Empty allows "
        "443 and 8443.\n"
        "  SubnetIds and SecurityGroupIds need each other; leave both empty for no VPC.\n"
    )
    assert not (project.folder / ".aws-sam").exists()


def test_deploy_without_any_authentication_is_refused(project: SamProject) -> None:
    done = project.run("deploy", "--yes", "--stack", "open", "--parameter", "ApiAuthorizer=NONE")
    assert done.returncode == 1
    assert "there are no callers in it: the function would not start" in done.stderr


def test_snap_start_of_images_is_refused_before_build(project: SamProject) -> None:
    (project.folder / "aion.yaml").write_text(CONFIG.replace("aion:\n", "aion:\n  image: true\n"))
    in_aion(project, "SnapStart: PublishedVersions")
    done = project.run("deploy", "--yes", "--stack", "snapped")
    assert done.returncode == 1
    assert "SnapStart=PublishedVersions is for zips, and aion.yaml has `image: true`" in done.stderr
    assert not (project.folder / ".aws-sam").exists()


@pytest.mark.deep
def test_deploy_prints_reason_of_nested_stack_failure(project: SamProject) -> None:
    broken = (shipped() / "infra" / "roles.yaml").read_text().replace("AWS::Logs::LogGroup", "AWS::Logs::NoSuchType")
    (project.folder / "stacks").mkdir()
    (project.folder / "stacks" / "roles.yaml").write_text(broken)
    for _ in range(2):
        done = project.run("deploy", "--yes", "--stack", "failing")
        assert done.returncode == 1
        assert done.stderr.endswith(
            "Error: The stack failing is ROLLBACK_COMPLETE: its creation failed, so it cannot be updated.\n"
            "    Aion: CREATE_FAILED: Unsupported resource type: AWS::Logs::NoSuchType\n"
            "  → Run `aion destroy --stack failing --data`, then `aion deploy` again.\n"
        )
    gone = project.run("destroy", "--stack", "failing", "--data", "--yes")
    assert gone.returncode == 0, gone.stdout + gone.stderr
    assert project.run("destroy", "--stack", "failing").stdout == "Nothing is left of failing.\n"


@pytest.mark.deep
def test_parameter_set_by_flag_is_kept_unless_samconfig_has_it(deployed: SamProject) -> None:
    """Deploy again without flags: MemorySize keeps the flag's value; RequestRate gets the value of samconfig.toml.

    The processor is that of template.yaml, also if an earlier deployment had another one.
    """
    template = deployed.folder / "template.yaml"
    before, other = (machine_architecture(), *({"arm64", "x86_64"} - {machine_architecture()}))
    deployed.deployed("standing", *[f"--parameter={each}" for each in ("MemorySize=512", "RequestRate=9")])
    template.write_text(template.read_text().replace(f"Architecture: {before}", f"Architecture: {other}"))
    again = deployed.deployed("standing")
    assert "MemorySize=512 stays from an earlier deployment; it is not in samconfig.toml\n" in again.stdout
    values = deployed.parameters(deployed.application("standing"))
    assert (values["MemorySize"], values["RequestRate"], values["Architecture"]) == ("512", "20", other)
    unchanged = deployed.deployed("standing")
    assert "No changes to deploy. Stack standing is up to date\n" in unchanged.stdout
    assert "standing is deployed." in unchanged.stdout


# --- Waiting tasks ---


@dataclass(eq=False)
class DeployedTable:
    """Table and bucket of a deployed stack, as a stack of the tests' stores."""

    project: SamProject
    stack: str

    def client(self, service: str) -> Any:
        return self.project.client(service)

    def environment(self, function: str) -> dict[str, str]:
        names = self.project.outputs(self.stack)
        return {"AION_TABLE": names["TableName"], "AION_BUCKET": names["BucketName"]}


def write_shop(project: SamProject, place: str) -> None:
    """Write an agent whose state has a class, and the module of this class."""
    (project.folder / "agent.py").write_text(HEAD + importing(place))
    (project.folder / f"{place}.py").write_text(HEAD + MODELS)
    (project.folder / "aion.yaml").write_text("aion:\n  agents: {test: {path: agent.py:graph}}\n")


@pytest.mark.deep
async def test_deploy_warns_of_class_that_waiting_tasks_have(project: SamProject) -> None:
    write_shop(project, "shop_models")
    first = await asyncio.to_thread(project.deployed, "waiting")
    assert "waiting tasks" not in first.stdout, "nothing waits before the first deployment"
    shop = Shop(DynamoDBSavers(DeployedTable(project, "waiting"), SystemClock()), SystemClock())
    try:
        await a_task_waits(shop)
    finally:
        shop.close()
    write_shop(project, "shopping")
    (project.folder / "shop_models.py").unlink()
    compared = "waiting tasks: 1 read, and this version lacks 1 class of their state\n"
    warned = (
        "         warning waiting tasks: 1 task of test waits for an answer with shop_models.Order in the state, which this "
        "version's state does not have. An answer fails the task.\n"
        "           → Keep an alias in the module shop_models until no stored state has the class: `from shopping import Order`.\n"
    )
    code, shown = await asyncio.to_thread(
        project.typed, "deploy", "--no-reply", "--stack", "waiting", answers=["y", ""]
    )
    assert (code, compared in shown, warned in shown) == (1, True, True), shown
    assert "Deploy these changes? [y/N]" in shown, "Enter means no"
    anyway = await asyncio.to_thread(project.deployed, "waiting")
    assert f"{compared}{warned}" in anyway.stdout


# --- Destroy ---


@pytest.mark.deep
def test_destroy_respects_stack_and_table_protection(deployed: SamProject) -> None:
    cloudformation, dynamodb = deployed.client("cloudformation"), deployed.client("dynamodb")
    cloudformation.update_termination_protection(StackName="standing", EnableTerminationProtection=True)
    done = deployed.run("destroy", "--stack", "standing", "--yes")
    assert (done.returncode, "TerminationProtection" in done.stderr) == (1, True), done.stderr
    cloudformation.update_termination_protection(StackName="standing", EnableTerminationProtection=False)
    table = deployed.outputs("standing")["TableName"]
    dynamodb.update_table(TableName=table, DeletionProtectionEnabled=True)
    done = deployed.run("destroy", "--stack", "standing", "--data", "--yes")
    assert (done.returncode, f"The table {table} has deletion protection." in done.stderr) == (1, True)
    assert deployed.status("standing").endswith("E_COMPLETE")
    dynamodb.update_table(TableName=table, DeletionProtectionEnabled=False)


def test_destroy_refuses_stack_of_another_program(project: SamProject) -> None:
    body = '{"Resources": {"Any": {"Type": "AWS::SQS::Queue"}}}'
    project.client("cloudformation").create_stack(StackName="foreign", TemplateBody=body)
    done = project.run("destroy", "--stack", "foreign", "--data", "--yes")
    assert (done.returncode, "is not an aion stack. Nothing was deleted." in done.stderr) == (1, True)
    assert project.status("foreign") == "CREATE_COMPLETE"


@pytest.mark.deep
def test_destroy_asks_and_retains_data_by_default(replied: RepliedProject) -> None:
    """Destroy a stack without its data, and then the data, but not the table of the project itself."""
    project = replied.project
    (orders,) = (name for name in project.client("dynamodb").list_tables()["TableNames"] if "kept-Orders" in name)
    names = project.outputs("kept")
    s3, key = project.client("s3"), names["KeyArn"].rpartition("/")[2]
    for body in (b"1", b"2"):
        s3.put_object(Bucket=names["BucketName"], Key="permanent/profile", Body=body)
    s3.delete_object(Bucket=names["BucketName"], Key="permanent/profile")
    s3.create_multipart_upload(Bucket=names["BucketName"], Key="unfinished")

    done = project.run("destroy", "--stack", "kept", "--data")
    assert (done.returncode, names["TableName"] in done.stdout) == (2, True)
    assert "Nothing was deleted: without a terminal, give --yes" in done.stderr
    code, shown = project.typed("destroy", "--stack", "kept", answers=["another"])
    assert (code, "Nothing was deleted." in shown) == (1, True)
    assert project.status("kept").endswith("E_COMPLETE")

    code, shown = project.typed("destroy", "--stack", "kept", answers=["kept"])
    assert (code, "Deleted successfully" in shown) == (0, True), shown
    assert project.status("kept") == ""
    for name in (names["TableName"], names["BucketName"], key):
        assert name in shown
    assert names["TableName"] in project.client("dynamodb").list_tables()["TableNames"]

    # Delete the retained resources, whose names the command finds in the deleted stack.
    deleted = project.run("destroy", "--stack", "kept", "--data", "--yes")
    assert deleted.returncode == 0, deleted.stdout + deleted.stderr
    assert f"bucket {names['BucketName']}: emptied and deleted" in deleted.stdout
    assert {names["TableName"], orders} & {*project.client("dynamodb").list_tables()["TableNames"]} == {orders}
    assert names["BucketName"] not in [each["Name"] for each in s3.list_buckets()["Buckets"]]
    assert project.client("kms").describe_key(KeyId=key)["KeyMetadata"]["KeyState"] == "PendingDeletion"
    again = project.run("destroy", "--stack", "kept", "--data", "--yes")
    assert (again.returncode, again.stdout) == (0, "Nothing is left of kept.\n")


@pytest.mark.deep
def test_template_of_repository_is_deployed_and_destroyed(tmp_path: Path, endpoint: str) -> None:
    project = SamProject.made(tmp_path / "clone", endpoint, {"agent.py": AGENT}, aion_yaml=CONFIG, nests=False)
    project.deployed("flat")
    names = project.outputs("flat")
    assert not (project.folder / ".aion" / "stacks").exists()
    assert project.run("tasks", "list", "--scan", "--stack", "flat").stderr == "No tasks.\n"
    gone = project.run("destroy", "--stack", "flat", "--data", "--yes")
    assert gone.returncode == 0, gone.stdout + gone.stderr
    assert names["TableName"] not in project.client("dynamodb").list_tables()["TableNames"]


# --- Other tools ---


@pytest.mark.deep
def test_packaged_template_creates_the_stack(deployed: SamProject) -> None:
    """Create a stack from the output of `sam package`, as Terraform and CDK do."""
    command: list[str | Path] = [sam_install.command(), "package", "--resolve-s3", "--region", "us-east-1"]
    command += ["--template-file", ".aws-sam/build/template.yaml", "--output-template-file", "packaged.yaml"]
    packaged = subprocess.run(command, cwd=deployed.folder, env=deployed.environment(), capture_output=True, text=True)
    assert packaged.returncode == 0, packaged.stdout + packaged.stderr
    cloudformation = deployed.client("cloudformation")
    body = (deployed.folder / "packaged.yaml").read_text()
    assert len(body) < 51_200  # CreateStack's limit in bytes
    cloudformation.create_stack(
        StackName="elsewhere",
        TemplateBody=body,
        Parameters=[{"ParameterKey": "Stage", "ParameterValue": "prod"}],
        Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
    )
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName="elsewhere", WaiterConfig={"Delay": 1, "MaxAttempts": 120}
    )
    assert deployed.outputs("elsewhere")["ApiUrl"].endswith("/prod")
