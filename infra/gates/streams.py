"""How requests reach the function that answers them: streamed, for as long as an answer may take, and no flood of them."""

import json
from collections.abc import Iterator

from aion_core.template.reader import FUNCTION, Template
from infra.gates.deployed import Deployed, timeout

LONGEST_RESPONSE = 900_000
NEEDS_MORE = "refuses who may execute-api:Invoke it and not lambda:InvokeFunction: its InvokeRole has to be NONE"


def problems(deployed: Deployed) -> Iterator[str]:
    """Yield which answers would be held back or cut, and which floods let through."""
    yield from _streams(deployed)
    yield from _answers(deployed.template)
    yield from _throttles(deployed)


def _streams(deployed: Deployed) -> Iterator[str]:
    """Every answer is streamed, for as long as a stream may take."""
    for name in deployed.template.resources("AWS::Serverless::Api"):
        # As it is written: SAM does not always look through a parameter that says AWS_IAM.
        if deployed.template.properties(name).get("Auth", {}).get("InvokeRole") != "NONE":
            yield f"{name} {NEEDS_MORE}"
    for _, api in deployed.resources("AWS::ApiGateway::RestApi"):
        if api["Properties"].get("EndpointConfiguration", {}).get("Types") != ["REGIONAL"]:
            yield "an edge-optimised API cuts a stream that is silent for 30 s: its endpoint has to be REGIONAL"
        for path, methods in api["Properties"]["Body"]["paths"].items():
            for method in methods.values():
                integration = method["x-amazon-apigateway-integration"]
                is_invoked_streaming = "/response-streaming-invocations" in json.dumps(integration["uri"])
                if integration.get("responseTransferMode") != "STREAM" or not is_invoked_streaming:
                    yield f"{path} is buffered: its event needs ResponseTransferMode: RESPONSE_STREAM"
                if integration.get("credentials"):
                    yield f"{path} {NEEDS_MORE}"
                if not 50 <= int(integration.get("timeoutInMillis", 0)) <= LONGEST_RESPONSE:
                    yield f"{path}: TimeoutInMillis has to be at most {LONGEST_RESPONSE}"
    for name, url in deployed.resources("AWS::Lambda::Url"):
        if url["Properties"].get("InvokeMode") != "RESPONSE_STREAM":
            yield f"{name} is buffered: its InvokeMode has to be RESPONSE_STREAM"
    for name, domain in deployed.resources("AWS::ApiGateway::DomainName"):
        if domain["Properties"].get("EndpointConfiguration", {}).get("Types") != ["REGIONAL"]:
            yield f"{name}: an edge-optimised domain cuts a stream that is silent for 30 s; it has to be REGIONAL"


def _answers(template: Template) -> Iterator[str]:
    """Behind a streaming API the function streams too, and has the time that the API gives it."""
    for function in template.resources(FUNCTION):
        seconds = timeout(template, function)
        environment = template.environment(function)
        for name, event in template.written_events(function, "Api").items():
            given = int(event.get("TimeoutInMillis", 0)) / 1000
            if given != seconds:
                yield f"{function}.{name}: an answer may take {seconds:g} s, and is cut after {given:g} s by TimeoutInMillis"
            app, handler = environment.get("AION_ASGI_APP", ""), template.properties(function)["Handler"]
            # The handler is the buffered twin of the app: what the runtime itself calls cannot stream.
            if "AWS_LAMBDA_EXEC_WRAPPER" not in environment or app in ("", ":".join(handler.rsplit(".", 1))):
                yield f"{function}.{name} is buffered: AWS_LAMBDA_EXEC_WRAPPER and AION_ASGI_APP have to name what streams"


def _throttles(deployed: Deployed) -> Iterator[str]:
    """What nobody has let in yet costs no invocation."""
    for name, stage in deployed.resources("AWS::ApiGateway::Stage"):
        everywhere = [
            settings
            for settings in stage["Properties"].get("MethodSettings", [])
            if (settings.get("ResourcePath"), settings.get("HttpMethod")) == ("/*", "*")
        ]
        if not any("ThrottlingRateLimit" in each and "ThrottlingBurstLimit" in each for each in everywhere):
            yield f"{name} lets every flood through: MethodSettings need ThrottlingRateLimit and ThrottlingBurstLimit"
        for settings in stage["Properties"].get("MethodSettings", []):
            for limit in ("ThrottlingRateLimit", "ThrottlingBurstLimit"):
                if float(deployed.template.resolve(settings.get(limit, 1), f"{name}.{limit}")) <= 0:
                    yield f"{name} lets no request through: its {limit} has to be above 0"
