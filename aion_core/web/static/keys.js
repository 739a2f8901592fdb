// Keys of the console, and the list of them. A control with `data-key` has that key, under its own name.

import { element } from "./element.js";

const OFF = "aion.keys"; // in localStorage: the user has turned the single keys off, for example for speech input
const FIXED = { Enter: "Send the message", "Shift+Enter": "Start a line", "Tab, Shift+Tab": "Go to the next, the previous control", Esc: "Close a dialog" };

const keyed = () => [...document.querySelectorAll("[data-key]")].filter((each) => each.checkVisibility());
const nameOf = (control) => control.ariaLabel ?? control.textContent.trim();
const row = ([key, name]) => element("div", {}, element("dt", {}, element("kbd", {}, key)), element("dd", {}, name));

const list = element("dl");
const single = element("input", { type: "checkbox", checked: !localStorage.getItem(OFF) });
const close = element("button", { type: "button" }, "Close");
const bar = element("div", { class: "bar" }, element("h2", { id: "keys-title" }, "Keyboard"), close);
const dialog = element("dialog", { id: "keys", "aria-labelledby": "keys-title" }, bar, list, element("label", {}, single, " Single keys act outside of fields"));
document.body.append(dialog);

function open() {
  list.replaceChildren(...[...Object.entries(FIXED), ...keyed().map((each) => [each.dataset.key, nameOf(each)])].map(row));
  dialog.showModal();
}

close.addEventListener("click", () => dialog.close());
single.addEventListener("change", () => (single.checked ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, "off")));
document.getElementById("keys-open").addEventListener("click", open);
addEventListener("keydown", (event) => {
  const isTyped = event.target.closest?.("input, textarea, select, [contenteditable]") || event.ctrlKey || event.metaKey || event.altKey;
  if (isTyped || event.isComposing || !single.checked || document.querySelector("dialog[open]")) return;
  const control = keyed().find((each) => each.dataset.key === event.key);
  if (!control || control.disabled) return;
  event.preventDefault();
  if (control.matches("textarea, input, select")) control.focus();
  else control.click();
});
