// A conversation as a pytest, which sends the same messages and expects the same states and answers.

import { CREDENTIAL } from "./wire.js";

/** Return a value as a Python literal. */
function literal(value) {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(literal).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value).map(([key, each]) => `${literal(key)}: ${literal(each)}`).join(", ")}}`;
  return JSON.stringify(value);
}

function turn({ message: { parts, metadata }, isAnswer, answer, state }) {
  // The ids of interrupts differ in each conversation: the test takes them from the question.
  const without = parts.map(({ metadata, ...part }) => part);
  const sent = metadata?.[CREDENTIAL] ? `[${parts.map(() => '{"text": os.environ["AION_SECRET"]}').join(", ")}]` : literal(without);
  return [
    `    task = ${isAnswer ? "answer(task, " : "send("}${sent}${isAnswer ? ")" : ", task)"}`,
    `    assert task["status"]["state"] == ${literal(`TASK_STATE_${state.toUpperCase().replaceAll(" ", "_")}`)}`,
    ...(answer ? [`    assert ${literal(answer)} in text(task)`] : []),
  ].join("\n");
}

/** Return the pytest of the turns of a conversation. Credentials are read from the environment. */
export function pytest(url, header, turns) {
  const key = header ? `, ${literal(header)}: os.environ["AION_KEY"]` : "";
  return `"""Conversation saved by the aion console. Start \`aion dev\`, then run pytest.

A model may answer in other words each time: expect less of its text then.
"""

import os
import uuid

import httpx

URL = os.environ.get("AION_URL", ${literal(url)})
HEADERS = {"A2A-Version": "1.0"${key}}


def send(parts: list[dict], before: dict | None = None, task_id: str = "") -> dict:
    """Send a message in the context of the task before, wait for the end of its turn, and return its task."""
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": parts, "taskId": task_id}
    message["contextId"] = before["contextId"] if before else ""
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    answered = httpx.post(URL, json=body, headers=HEADERS, timeout=300).json()
    assert "error" not in answered, answered
    result = answered["result"]
    if "task" in result:
        return result["task"]
    return {**result["message"], "status": {"state": "TASK_STATE_COMPLETED", "message": result["message"]}}


def answer(task: dict, parts: list[dict]) -> dict:
    """Answer the questions of an interrupted task, each by one part."""
    questions = task["status"]["message"].get("metadata", {}).get("interrupts", [])
    if len(questions) > 1:
        ids = [{"interruptId": question["id"]} for question in questions]
        parts = [{**part, "metadata": metadata} for part, metadata in zip(parts, ids, strict=True)]
    return send(parts, task, task["id"])


def text(task: dict) -> str:
    """Return the text of the task's last message and of its artifacts."""
    messages = [task["status"].get("message", {}), *task.get("artifacts", [])]
    return "".join(part.get("text", "") for message in messages for part in message.get("parts", []))


def test_conversation() -> None:
    task = None
${turns.map(turn).join("\n")}
`;
}
