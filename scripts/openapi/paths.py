"""Operations of the OpenAPI document: parameters, bodies and responses at each route."""

from aion_core.web.operations.operation import Body, HttpRoute, Operation
from scripts.openapi.examples import Examples
from scripts.openapi.fields import Schema
from scripts.openapi.schemas import ProtoDescriptor, Schemas


def _path_parameters(route: HttpRoute) -> list[str]:
    return [part.partition("}")[0].partition(":")[0] for part in route.path.split("{")[1:]]


def operation_at(
    operation: Operation, route: HttpRoute, requests: Schemas, responses: Schemas, examples: Examples
) -> Schema:
    """Return the OpenAPI description of an operation at this route."""
    doc, request = operation.doc, operation.request
    if doc is None or request is None:
        raise ValueError(f"{operation.name} has routes, but no `doc` or no `request` type")
    in_path = _path_parameters(route)
    is_first = route == operation.routes[0]
    described: Schema = {
        "operationId": operation.name if is_first else f"{operation.name}By{route.method.capitalize()}",
        "tags": [doc.tag],
        "summary": doc.summary,
        **({"description": doc.description} if doc.description else {}),
    }
    outside = [
        field for field in request.DESCRIPTOR.fields if field.name != "tenant" and field.json_name not in in_path
    ]
    described["parameters"] = [
        *(
            {"name": name, "in": "path", "required": True, "schema": {"$ref": "#/components/schemas/PathId"}}
            for name in in_path
        ),
        *({"$ref": f"#/components/parameters/{name}"} for name in ("Version", "Extensions", *doc.parameters)),
        *(_query_parameter(field, requests) for field in outside if route.has_query),
    ]
    if route.body is not Body.IGNORED:
        without = [field.name for field in request.DESCRIPTOR.fields if field not in outside]
        schema = requests.ref(request.DESCRIPTOR, without=without)
        content: Schema = {"application/a2a+json": {"schema": schema}, "application/json": {"schema": schema}}
        if doc.example:
            content["application/a2a+json"]["example"] = dict(doc.example)
        described["requestBody"] = {"required": route.body is Body.REQUIRED, "content": content}
    described["responses"] = {"200": _success(operation, doc.result, responses, examples), **_refusals(route)}
    return described


def _query_parameter(field: ProtoDescriptor, requests: Schemas) -> Schema:
    schema = dict(requests.field(field))
    description = {"description": schema.pop("description")} if "description" in schema else {}
    return {"name": field.json_name, "in": "query", **description, "schema": schema}


def _success(operation: Operation, description: str, responses: Schemas, examples: Examples) -> Schema:
    schema: Schema = (
        responses.ref(operation.response.DESCRIPTOR) if operation.response else {"type": "object", "maxProperties": 0}
    )
    if operation.stream is None:
        result = examples["results"].get(operation.name)
        content = {"schema": schema, **({"example": result} if result is not None else {})}
        # The type is the one that the request names.
        return {
            "description": description,
            "content": {"application/a2a+json": content, "application/json": {"schema": schema}},
        }
    event: Schema = {
        "type": "object",
        "description": "One event of the stream: its fields `id` and `data`.",
        "required": ["id", "data"],
        "properties": {
            "id": {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)*$"},
            "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": schema},
        },
    }
    return {
        "description": (
            "Server-Sent Events, each as the schema describes. The first event has the task; the last event has a status "
            "update with a terminal or interrupted state. A client resumes the stream with the id of its last event."
        ),
        "content": {
            "text/event-stream": {
                "schema": event,
                "examples": {
                    f"event {place}": {"value": each}
                    for place, each in enumerate(examples["streams"][operation.name], start=1)
                },
            }
        },
    }


def _refusals(route: HttpRoute) -> Schema:
    names = {"400": "BadRequest", "401": "Unauthenticated", "403": "Forbidden", "404": "NotFound"}
    if route.body is not Body.IGNORED:
        names |= {"408": "TooSlow", "413": "TooLarge", "415": "Encoded"}
    names |= {"429": "TooMany", "503": "Unavailable"}
    return {status: {"$ref": f"#/components/responses/{name}"} for status, name in names.items()}
