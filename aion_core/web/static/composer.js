// The user's next message: what is written and attached, or the answer to the agent's question in a form.

import { answersOf, fieldsets, questionsOf } from "./form.js";
import { element } from "./render.js";
import { CREDENTIAL } from "./wire.js";

const $ = (id) => document.getElementById(id);

export class Composer {
  #log;
  #say;
  #card; // each conversation's own

  /** `say` gets the parts and the metadata of a message. */
  constructor(log, say) {
    [this.#log, this.#say] = [log, say];
    $("text").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      $("compose").requestSubmit();
    });
    $("compose").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send().catch((error) => log.say("error", `A file cannot be read: ${error.message}`));
    });
  }

  /** Begin a conversation. Return the agent's name, its description, and its examples, each of which fills the message. */
  begin(card) {
    this.#card = { ...card };
    this.ask(undefined);
    const { name, description = "", skills = [] } = card;
    const examples = skills.flatMap((skill) => skill.examples ?? []).slice(0, 4).map((text) => {
      const button = element("button", { type: "button" }, text);
      button.addEventListener("click", () => {
        $("text").value = text;
        $("text").focus();
      });
      return button;
    });
    return element("div", { class: "empty" }, element("strong", {}, name), element("p", {}, description), ...examples);
  }

  /** Let the user write, or wait until the agent is known. */
  ready(isReady) {
    $("text").disabled = $("submit").disabled = !isReady;
  }

  /** Show a form for the questions of an interrupted task, or hide the form. */
  ask(status) {
    const form = $("question");
    const isSecret = status?.state === "TASK_STATE_AUTH_REQUIRED";
    const questions = status?.message ? questionsOf(status.message) : [];
    // The form takes its room from the log, whose end has the question.
    this.#log.follow(() => {
      form.hidden = !questions.length;
      form.replaceChildren(...fieldsets(questions, isSecret), element("button", { type: "submit" }, "Answer"));
    });
    if (form.hidden) return;
    form.onsubmit = (event) => {
      event.preventDefault();
      let parts;
      try {
        parts = answersOf(form, questions);
      } catch (error) {
        return this.#log.say("error", error.message);
      }
      const [{ id }] = questions;
      this.#say(parts, { ...(questions.length === 1 && id && { interruptId: id }), ...(isSecret && { [CREDENTIAL]: true }) });
      return $("text").focus(); // the form that had the focus is gone
    };
    form.querySelector("[name]")?.focus();
  }

  async #send() {
    const card = this.#card;
    const parts = $("text").value.trim() ? [this.#part($("text").value)] : [];
    const files = [...$("files").files];
    $("compose").reset();
    parts.push(...(await Promise.all(files.map(filePart))));
    if (parts.length && card === this.#card) this.#say(parts); // else another conversation has begun
  }

  /** Return what the user has typed as a part: JSON as data for an agent that takes no text, and if it is an example. */
  #part(text) {
    const isExample = (this.#card.skills ?? []).some(({ examples = [] }) => examples.includes(text.trim()));
    if (this.#card.defaultInputModes?.includes("text/plain") && !isExample) return { text };
    try {
      const data = JSON.parse(text);
      return isExample || typeof data === "object" ? { data } : { text };
    } catch {
      return { text };
    }
  }
}

async function filePart(file) {
  const read = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
  return { raw: read.slice(read.indexOf(",") + 1), filename: file.name, mediaType: file.type || "application/octet-stream" };
}
