// Files of the message: chosen, pasted or dropped, and removed again.

import { element } from "./element.js";

const $ = (id) => document.getElementById(id);
let held = [];

function add(files) {
  held.push(...files);
  draw();
}

function draw() {
  const transfer = new DataTransfer();
  for (const file of held) transfer.items.add(file);
  $("files").files = transfer.files;
  $("chosen").replaceChildren(...held.map((file) => {
    const button = element("button", { type: "button", "aria-label": `Remove ${file.name}` });
    button.addEventListener("click", () => {
      held = held.filter((each) => each !== file);
      draw();
      $("text").focus();
    });
    return element("span", { class: "chip" }, file.name, button);
  }));
}

const hasFiles = (transfer) => transfer?.types.includes("Files");
const mark = (isOver) => $("compose").classList.toggle("over", isOver);

$("files").addEventListener("change", () => add($("files").files));
$("compose").addEventListener("reset", () => {
  held = [];
  draw();
});
$("text").addEventListener("paste", (event) => {
  // A copied part of a document is a text, of which there is also a picture.
  if (!event.clipboardData.files.length || event.clipboardData.types.includes("text/plain")) return;
  event.preventDefault();
  add(event.clipboardData.files);
});
// The whole page takes files: beside the message, the browser would leave the page and open the file.
addEventListener("dragover", (event) => {
  if (!hasFiles(event.dataTransfer)) return;
  event.preventDefault();
  mark(true);
});
addEventListener("dragleave", (event) => event.relatedTarget ?? mark(false));
addEventListener("drop", (event) => {
  if (!hasFiles(event.dataTransfer)) return;
  event.preventDefault();
  mark(false);
  const isFolder = (item) => item.webkitGetAsEntry?.()?.isDirectory;
  add([...event.dataTransfer.items].filter((item) => item.kind === "file" && !isFolder(item)).map((item) => item.getAsFile()));
  $("text").focus();
});
