"""Component schemas of the OpenAPI document, from the proto descriptors of the A2A specification."""

from collections.abc import Iterable
from typing import Any

from google.api import field_behavior_pb2
from google.protobuf.descriptor import FieldDescriptor

from scripts.openapi.fields import POSSIBLY_ABSENT, PRESENT, REQUEST_FIELDS, RESPONSE_FIELDS, Schema

ProtoDescriptor = Any
"""Descriptor of a protobuf message, enum or field. Its Python type depends on the implementation of protobuf."""


class Schemas:
    """Builder of OpenAPI's component schemas from proto messages, either for requests or for responses."""

    def __init__(self, *, of_requests: bool) -> None:
        self.components: dict[str, Schema] = {}
        self._of_requests = of_requests

    def ref(self, descriptor: ProtoDescriptor, *, without: Iterable[str] = ()) -> Schema:
        """Return a reference to the schema of a message or enum, and add the schema to the components.

        The schema omits the fields in `without`.
        """
        name = descriptor.name
        if self._of_requests and hasattr(descriptor, "fields") and not name.endswith(("Request", "Configuration")):
            # Give the schemas of requests other names, because a protobuf message has stricter rules in a request.
            name = f"{name}Input"
        if name not in self.components:
            self.components[name] = {}
            self.components[name] = (
                self._message(descriptor, frozenset(without))
                if hasattr(descriptor, "fields")
                else {"type": "string", "enum": [value.name for value in descriptor.values if value.number]}
            )
        return {"$ref": f"#/components/schemas/{name}"}

    def field(self, field: ProtoDescriptor) -> Schema:
        """Return the JSON schema of a message field, with the constraints of this server."""
        rules = REQUEST_FIELDS if self._of_requests else RESPONSE_FIELDS
        own = rules.get(f"{field.containing_type.name}.{field.json_name}", {})
        if "type" in own or "$ref" in own:
            return own
        if not field.is_repeated:
            return {**self._value(field), **own}
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return {"type": "object", "additionalProperties": self._value(field.message_type.fields_by_name["value"])}
        return {"type": "array", "items": self._value(field), **own}

    def _message(self, descriptor: ProtoDescriptor, without: frozenset[str]) -> Schema:
        fields = [field for field in descriptor.fields if field.name not in without]
        choices = [oneof for oneof in descriptor.oneofs if not oneof.name.startswith("_")]
        in_choice = {field.name for oneof in choices for field in oneof.fields}
        schema: Schema = {"type": "object"}
        if self._of_requests:
            schema["additionalProperties"] = {"$ref": "#/components/schemas/Json"}
        for oneof in choices:
            schema["oneOf"] = [
                {"type": "object", "required": [field.json_name], "properties": {field.json_name: self.field(field)}}
                for field in oneof.fields
            ]
        if required := [field.json_name for field in fields if self._is_required(field)]:
            schema["required"] = required
        if properties := {field.json_name: self.field(field) for field in fields if field.name not in in_choice}:
            schema["properties"] = properties
        return schema

    def _is_required(self, field: ProtoDescriptor) -> bool:
        name = f"{field.containing_type.name}.{field.json_name}"
        if not self._of_requests and name in PRESENT | POSSIBLY_ABSENT:
            return name in PRESENT
        behavior = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
        return field_behavior_pb2.REQUIRED in behavior

    def _value(self, field: ProtoDescriptor) -> Schema:
        if field.message_type is not None:
            match field.message_type.full_name:
                case "google.protobuf.Struct":
                    return {"$ref": "#/components/schemas/Metadata"} if self._of_requests else {"type": "object"}
                case "google.protobuf.Value":
                    return {"$ref": "#/components/schemas/Json"} if self._of_requests else {"description": "Any JSON."}
                case "google.protobuf.Timestamp":
                    return {"type": "string", "format": "date-time"}
            # Omit tenant and task id from a push config within a request, because the request itself has these fields.
            return self.ref(field.message_type, without=("tenant", "task_id") if self._is_nested_config(field) else ())
        if field.enum_type is not None:
            return self.ref(field.enum_type)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return {"$ref": "#/components/schemas/Base64"}
        if field.type == FieldDescriptor.TYPE_BOOL:
            return {"type": "boolean"}
        return {"type": "integer" if field.cpp_type == FieldDescriptor.CPPTYPE_INT32 else "string"}

    def _is_nested_config(self, field: ProtoDescriptor) -> bool:
        return self._of_requests and field.message_type.name == "TaskPushNotificationConfig"
