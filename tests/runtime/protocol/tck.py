"""Requirements of the A2A Technology Compatibility Kit (TCK), each with our tests that prove the requirement.

A proof is a row of the protocol table (`row SendMessage: a text`), which runs in both versions and bindings, or a test
(`runtime/unit/web/test_cards.py::test_card_is_cacheable`). The ids are those of the TCK; the numbers are sections of A2A 1.0.

CARD-SIGN-004 and VER-CLIENT-001 are duties of clients. The requirements of the gRPC binding do not apply, because this
server has none.
"""

PROOFS: dict[str, tuple[str, ...]] = {
    # SendMessage, 3.1.1
    "CORE-SEND-001": ("row SendMessage: a text", "runtime/unit/agents/executor/test_message_replies.py::test_message_of_an_executor_is_the_response"),
    "CORE-SEND-002": ("row SendMessage: to an ended task", "row SendMessage: to a canceled task"),
    "CORE-SEND-003": ("row SendMessage: media types: a file, where it takes text", "row SendMessage: media types: data, where it takes text"),
    # SendStreamingMessage, 3.1.2
    "CORE-STREAM-001": ("row SendStreamingMessage: a text", "runtime/unit/web/test_sse.py::test_sse_event_ids_number_the_task_events_and_their_chunks"),
    "CORE-STREAM-002": ("runtime/unit/agents/executor/test_message_replies.py::test_streamed_reply_without_task_is_exactly_one_message",),
    "CORE-STREAM-003": ("row SendStreamingMessage: a text", "runtime/protocol/test_compliance.py::test_golden_transcript_complies_with_a2a"),
    # GetTask and ListTasks, 3.1.3 and 3.1.4
    "CORE-GET-001": ("row GetTask: one that ended", "row GetTask: one that works", "row GetTask: one that asks"),
    "CORE-GET-002": ("row GetTask: unknown", "runtime/unit/auth/test_foreign_ids.py::test_every_request_treats_another_owners_task_id_as_unknown"),
    "CORE-LIST-001": ("runtime/unit/engine/listing/test_list_tasks.py::test_foreign_tasks_are_never_listed", "runtime/unit/auth/test_foreign_ids.py::test_lists_contain_no_tasks_or_contexts_of_other_owners"),
    "CORE-LIST-002": ("runtime/unit/engine/listing/test_list_tasks.py::test_hundred_tasks_are_listed_in_pages", "runtime/unit/engine/listing/test_list_tasks.py::test_modified_page_token_is_refused"),
    "CORE-LIST-003": ("runtime/unit/engine/listing/test_list_tasks.py::test_tasks_are_listed_by_their_last_status", "runtime/contract/test_task_list.py::test_tasks_are_sorted_by_status_time_and_id"),
    "CORE-LIST-004": ("runtime/unit/engine/listing/test_list_tasks.py::test_full_last_page_of_task_list_has_no_token", "runtime/unit/engine/listing/test_list_tasks.py::test_owner_without_tasks_gets_empty_list"),
    "CORE-LIST-005": ("runtime/unit/engine/listing/test_list_tasks.py::test_task_list_has_artifacts_on_request_only",),
    # CancelTask, 3.1.5
    "CORE-CANCEL-001": ("row CancelTask: one that works", "row CancelTask: one that asks"),
    "CORE-CANCEL-002": ("row CancelTask: one that ended", "row CancelTask: one that is canceled"),
    "CORE-CANCEL-003": ("row CancelTask: unknown",),
    # Execution mode, 3.2.2
    "CORE-EXECUTION-MODE-001": ("row SendMessage: a text", "row SendMessage: one that asks"),
    "CORE-EXECUTION-MODE-002": ("row SendMessage: without waiting", "runtime/unit/engine/test_service.py::test_return_immediately_returns_working_task"),
    # History, 3.2.4
    "CORE-HIST-001": ("row GetTask: without its history",),
    "CORE-HIST-002": ("runtime/protocol/test_tck.py::test_send_with_history_length_zero_returns_no_history", "row GetTask: one that asks"),
    "CORE-HIST-003": ("runtime/unit/web/test_rpc.py::test_first_task_of_stream_has_requested_history_length", "runtime/protocol/test_tck.py::test_send_with_history_length_zero_returns_no_history"),
    "CORE-HIST-004": ("row GetTask: one that ended",),
    "CORE-HIST-005": ("runtime/protocol/test_tck.py::test_history_has_messages_in_order", "runtime/unit/engine/task/test_projection.py::test_status_message_is_also_last_of_history"),
    "CORE-HIST-006": ("runtime/protocol/test_tck.py::test_history_has_messages_in_order",),
    # Errors and capabilities, 3.3
    "CORE-ERR-001": ("runtime/unit/web/test_bad_input.py::test_error_message_names_field", "runtime/unit/web/rest/test_v1.py::test_invalid_field_is_named_in_both_bindings"),
    "CORE-ERR-002": ("row SendMessage: parts: none", "row GetTask: id: missing", "runtime/protocol/test_variations.py::test_invalid_variation_of_request_receives_expected_error_code"),
    "CORE-CAP-001": tuple(f"row {kind}TaskPushNotificationConfig{s}: not offered" for kind, s in (("Create", ""), ("Get", ""), ("List", "s"), ("Delete", ""))),
    "CORE-CAP-002": ("row SendStreamingMessage: where the card offers no streams", "row SubscribeToTask: where the card offers no streams"),
    "CORE-CAP-003": ("row GetExtendedAgentCard: not offered",),
    "CORE-CAP-004": ("runtime/protocol/test_table.py::test_request_must_declare_required_extension",),
    # Contexts and tasks, 3.4
    "CORE-MULTI-001": ("runtime/protocol/test_tck.py::test_new_task_has_generated_ids",),
    "CORE-MULTI-001a": ("runtime/protocol/test_tck.py::test_new_task_has_generated_ids",),
    "CORE-MULTI-002": ("row SendMessage: in a context", "runtime/contract/test_free_ids.py::*"),
    "CORE-MULTI-002a": ("row SendMessage: contextId: too long", "row SendMessage: contextId: with NUL"),
    "CORE-MULTI-003": ("runtime/protocol/test_tck.py::test_new_task_has_generated_ids",),
    "CORE-MULTI-004": ("row SendMessage: to an unknown task",),
    "CORE-MULTI-005": ("row SendMessage: an answer", "runtime/protocol/test_tck.py::test_history_has_messages_in_order"),
    "CORE-MULTI-006": ("row SendMessage: to a task of another context",),
    # Streams, 3.1.6 and 3.5.2
    "STREAM-ORDER-001": ("runtime/protocol/test_compliance.py::test_golden_transcript_complies_with_a2a", "runtime/unit/engine/stream/test_subscription.py::test_reader_receives_each_item_once_in_order"),
    "STREAM-ORDER-002": ("runtime/unit/engine/stream/test_subscription.py::test_hundred_readers_need_at_most_twice_one_readers_requests",),
    "STREAM-ORDER-003": ("runtime/unit/engine/stream/test_subscription.py::test_reader_receives_each_item_once_in_order",),
    "STREAM-ORDER-004": ("runtime/unit/engine/stream/test_subscription.py::test_leaving_reader_does_not_cancel_read_shared_with_others",),
    "STREAM-SUB-001": ("row SubscribeToTask: one that works", "row SubscribeToTask: one that asks"),
    "STREAM-SUB-002": ("row SubscribeToTask: one that works", "runtime/unit/engine/stream/test_subscription.py::test_subscription_continues_after_interrupt_until_terminal_state"),
    "STREAM-SUB-003": ("row SubscribeToTask: one that ended", "row SubscribeToTask: one that is canceled"),
    "STREAM-SUB-004": ("row SubscribeToTask: unknown",),
    # Agent card, 3.1.11, 4.4.1 and 8
    "CARD-DISC-001": ("runtime/unit/web/test_cards.py::test_sdk_reads_same_card_with_and_without_version_header",),
    "CARD-PROTO-001": ("runtime/unit/web/test_cards.py::test_agent_card_has_fields_declared_in_aion_yaml",),
    "CARD-PROTO-002": ("runtime/unit/web/test_cards.py::test_sdk_can_call_each_interface_named_in_card",),
    "BIND-FIELD-001": ("runtime/unit/web/test_cards.py::test_sdk_can_call_each_interface_named_in_card",),
    "CARD-STRUCT-001": ("runtime/unit/web/test_cards.py::test_client_that_requests_v1_gets_card_with_v1_fields", "runtime/unit/web/test_cards.py::test_client_not_requesting_v1_gets_card_for_both_protocol_versions"),
    "CARD-EXT-001": ("row GetExtendedAgentCard: offered", "runtime/unit/web/test_cards.py::test_extended_card_at_its_oldest_path_is_never_cached"),
    "CARD-EXT-002": ("row GetExtendedAgentCard: offered, and not there",),
    "CARD-SIGN-001": ("runtime/unit/protocol/test_signing.py::test_signature_of_agent_card_is_valid_in_both_protocol_versions", "runtime/unit/protocol/test_signing.py::test_a2a_sdk_for_v03_verifies_card_signature"),
    "CARD-SIGN-002": ("runtime/unit/protocol/test_signing.py::test_card_may_have_signatures_of_two_keys",),
    "CARD-SIGN-003": ("runtime/unit/protocol/test_signing.py::test_id_of_signing_key_is_its_thumbprint",),
    "CARD-CACHE-001": ("runtime/unit/web/test_cards.py::test_card_is_cacheable",),
    "CARD-CACHE-002": ("runtime/unit/web/test_cards.py::test_card_is_cacheable",),
    "CARD-CACHE-003": ("runtime/unit/web/test_cards.py::test_last_modified_header_of_card_is_start_of_process",),
    # Data model, 4 and 5.5 to 5.7
    **dict.fromkeys(
        ("DM-TASK-001", "DM-TASK-002", "DM-MSG-001", "DM-MSG-002", "DM-PART-001", "DM-ART-001", "DM-STATUS-001"),
        ("runtime/protocol/test_compliance.py::test_golden_transcript_complies_with_a2a", "runtime/protocol/test_compliance.py::test_compliance_check_detects_each_mistake_added_to_stream"),
    ),
    "DM-SERIAL-001": ("runtime/protocol/test_tck.py::test_response_is_camel_case_with_named_enums",),
    "DM-SERIAL-002": ("runtime/protocol/test_tck.py::test_response_is_camel_case_with_named_enums",),
    "DM-SERIAL-003": ("runtime/unit/engine/task/test_projection.py::test_timestamp_is_written_in_utc", "runtime/protocol/test_compliance.py::test_golden_transcript_complies_with_a2a"),
    "DM-SERIAL-004": ("row SendMessage: messageId: missing", "row SendMessage: role: missing", "row SendMessage: parts: none"),
    "DM-SERIAL-005": ("runtime/protocol/test_tck.py::test_unknown_fields_are_ignored",),
    # Push notifications, 3.1.7 to 3.1.10 and 4.3
    "PUSH-CREATE-001": ("row CreateTaskPushNotificationConfig: whole",),
    "PUSH-CREATE-002": ("runtime/unit/push/test_configs.py::test_owner_reads_push_config_as_registered",),
    "PUSH-GET-001": ("row GetTaskPushNotificationConfig: one of two",),
    "PUSH-GET-002": ("row GetTaskPushNotificationConfig: unknown",),
    "PUSH-LIST-001": ("row ListTaskPushNotificationConfigs: all",),
    "PUSH-DEL-001": ("row DeleteTaskPushNotificationConfig: one of two",),
    "PUSH-DEL-002": ("row DeleteTaskPushNotificationConfig: one that is not there", "runtime/contract/test_push_configs.py::test_deleted_push_config_may_be_deleted_again"),
    "PUSH-DELIVER-001": ("runtime/unit/push/test_configs.py::test_webhook_post_has_registered_credentials",),
    "PUSH-DELIVER-002": ("runtime/unit/push/test_delivery.py::test_webhook_events_arrive_once_in_order_and_signed",),
    "PUSH-DELIVER-003": ("runtime/unit/push/test_configs.py::test_webhook_body_follows_protocol_version",),
    # JSON-RPC binding, 9
    "JSONRPC-FMT-001": ("runtime/protocol/test_tck.py::test_response_is_camel_case_with_named_enums", "runtime/unit/web/test_bad_input.py::test_invalid_params_error_has_request_id"),
    "JSONRPC-FMT-002": ("runtime/protocol/test_variations.py::test_invalid_variation_of_request_receives_expected_error_code", "runtime/protocol/test_tck.py::test_response_is_camel_case_with_named_enums"),
    "JSONRPC-SVC-001": ("runtime/protocol/test_table.py::test_protocol_table_covers_each_operation",),
    "JSONRPC-SVC-002": ("runtime/protocol/test_table.py::test_only_matching_or_omitted_protocol_version_is_accepted", "runtime/protocol/test_table.py::test_request_must_declare_required_extension"),
    "JSONRPC-SSE-001": ("runtime/unit/web/test_sse.py::test_sse_frames_equal_sdk_frames",),
    "JSONRPC-SSE-002": ("row SubscribeToTask: unknown", "row SendStreamingMessage: to an ended task"),
    "JSONRPC-ERR-001": ("runtime/protocol/test_table.py::test_server_responds_as_each_row_of_protocol_table_states",),
    "JSONRPC-ERR-002": ("row CreateTaskPushNotificationConfig: not offered", "row GetTask: unknown"),
    "JSONRPC-ERR-003": ("runtime/unit/web/test_rpc.py::test_json_rpc_error_data_contains_reason",),
    # HTTP+JSON binding, 11
    "HTTP_JSON-URL-001": ("runtime/protocol/test_table.py::test_protocol_table_covers_each_path",),
    "HTTP_JSON-URL-002": ("runtime/protocol/test_table.py::test_unsupported_http_method_gets_status_405", "runtime/protocol/test_table.py::test_subscribe_to_task_over_rest_accepts_get_method"),
    "HTTP_JSON-SVC-001": ("runtime/protocol/test_tck.py::test_http_json_svc_001", "runtime/unit/web/rest/test_v1.py::test_json_and_a2a_json_content_types_are_accepted",),
    "HTTP_JSON-SVC-002": ("runtime/protocol/test_table.py::test_only_matching_or_omitted_protocol_version_is_accepted",),
    "HTTP_JSON-QP-001": ("runtime/unit/web/rest/test_v1.py::test_request_fields_are_accepted_as_query_parameters",),
    "HTTP_JSON-ERR-001": ("runtime/protocol/test_tck.py::test_http_json_err_001", "runtime/protocol/test_table.py::test_server_responds_as_each_row_of_protocol_table_states",),
    "HTTP_JSON-ERR-002": ("runtime/unit/web/rest/test_v1.py::test_invalid_field_is_named_in_both_bindings",),
    "HTTP_JSON-STATUS-001": ("runtime/protocol/test_table.py::test_server_responds_as_each_row_of_protocol_table_states",),
    "HTTP_JSON-SSE-001": ("runtime/unit/web/rest/test_v1.py::test_rest_stream_frames_equal_sdk_frames",),
    # Versions, 3.6
    "VER-SERVER-001": ("runtime/unit/web/request/test_versions.py::test_protocol_version_that_matches_method_is_accepted", "runtime/protocol/test_table.py::test_only_matching_or_omitted_protocol_version_is_accepted"),
    "VER-SERVER-002": ("runtime/unit/web/request/test_versions.py::test_unsupported_or_mismatched_protocol_version_is_refused",),
    "VER-SERVER-003": ("runtime/protocol/test_table.py::test_only_matching_or_omitted_protocol_version_is_accepted",),
    "VER-CLIENT-002": ("runtime/protocol/test_table.py::test_only_matching_or_omitted_protocol_version_is_accepted",),
}  # fmt: skip
"""Proofs of the TCK's requirements for A2A 1.0."""

PROOFS_V03: dict[str, tuple[str, ...]] = {
    "test_rejects_malformed_json": ("runtime/protocol/test_table.py::test_refused_request_body_has_expected_http_status",),
    "test_rejects_invalid_json_rpc_requests": ("runtime/protocol/test_tck.py::test_invalid_json_rpc_request_is_refused", "runtime/protocol/test_tck.py::test_rejects_invalid_json_rpc_requests_invalid_request4"),
    "test_tasks_resubscribe_nonexistent": ("runtime/protocol/test_tck.py::test_tasks_resubscribe_nonexistent", "row SubscribeToTask: unknown"),
    "test_rejects_unknown_method": ("runtime/unit/web/test_bad_input.py::test_unknown_method_error_lists_methods",),
    "test_rejects_invalid_params": ("row SendMessage: parts: a text",),
    "test_message_send_valid_text": ("row SendMessage: a text",),
    "test_message_send_invalid_params": ("row SendMessage: message: a text", "row SendMessage: messageId: missing"),
    "test_message_send_continue_task": ("row SendMessage: an answer",),
    "test_tasks_get_method": ("row GetTask: one that ended", "row GetTask: unknown", "row GetTask: historyLength: below 0"),
    "test_tasks_cancel_valid": ("row CancelTask: one that works",),
    "test_tasks_cancel_nonexistent": ("row CancelTask: unknown",),
    "test_state_transitions": ("runtime/protocol/test_compliance.py::test_golden_transcript_complies_with_a2a", "runtime/unit/engine/task/test_projection.py::test_invalid_state_transition_is_refused"),
    "test_a2a_error_codes": ("runtime/protocol/test_table.py::test_server_responds_as_each_row_of_protocol_table_states",),
    "test_a2a_v030_new_methods": ("row ListTaskPushNotificationConfigs: all", "row DeleteTaskPushNotificationConfig: one of two", "row GetExtendedAgentCard: offered"),
    "test_a2a_v030_transport_compliance": ("runtime/unit/web/test_cards.py::test_sdk_can_call_each_interface_named_in_card",),
    "test_agent_card_mandatory": ("runtime/unit/web/test_cards.py::test_client_not_requesting_v1_gets_card_for_both_protocol_versions",),
    "test_extended_agent_card": ("runtime/unit/web/test_rpc.py::test_both_v03_method_names_for_extended_card_are_known", "row GetExtendedAgentCard: not offered"),
    "test_auth_enforcement": ("runtime/unit/auth/test_public_routes.py::test_only_listed_routes_answer_without_credentials", "runtime/unit/auth/test_authenticator.py::test_policy_requirement_may_combine_authentication_schemes"),
    "test_agent_card_security": ("runtime/unit/auth/test_deployment.py::test_card_shows_schemes_in_both_versions",),
    "test_in_task_authentication": ("runtime/golden/adk/test_transcripts.py::test_adk_stream_matches_its_golden_transcript",),
    "test_multi_transport_equivalence": ("runtime/unit/web/rest/test_v1.py::test_http_json_result_equals_json_rpc_result",),
}  # fmt: skip
"""Proofs of the mandatory tests of the TCK for A2A 0.3, by the names of its tests or modules.

The transport security tests (certificates, TLS) concern the HTTP entry point, which is AWS's.
"""
