// Texts of messages as Markdown. The server renders them; until then, and where it can't, a text is shown as it is written.

import { element } from "./element.js";
import { build, patch } from "./nodes.js";

const MOST = 100000; // characters of a request
const PIECE = 8000; // characters of a text to render in one frame
const BATCH = 16000; // characters of several texts
const LINES = 2000; // characters of an element with lines as they are written
const TRIES = 4;

let options; // see `render`
let isMissing = false; // the server renders no Markdown
let isBusy = false;
const waiting = new Set();

/** Set how texts are rendered: `ask(texts)` the server for their trees, `change(draw)` the page, while a text grows if `isLive()`. */
export const render = (given) => (options = given);

/** Text that may grow. While it does, only its unfinished block is rendered anew. */
export class Text {
  shown = element("div", { class: "text" });
  #plain = element("div", { class: "plain" });
  #written = ""; // the text in `plain`
  #text = "";
  #isOpen = true;
  #done = 0; // characters of the finished blocks
  #count = 0; // number of the finished blocks
  #trees = []; // trees of the blocks after them
  #isRendered = false; // the blocks after them are shown
  #hasReferences = false;
  #isWhole = false; // all blocks are rendered together
  #piece = PIECE; // 0 after a block that is too long
  #tries = 0;

  /** Show a text, which may still be `open`. Return its element. */
  update(given, isOpen) {
    const text = isOpen ? given : given.trimEnd(); // a message and its preview often differ in the end only
    if (text === this.#text && isOpen === this.#isOpen) return this.shown;
    if (this.#isWhole || !text.startsWith(this.#text.slice(0, this.#done))) this.#begin();
    [this.#text, this.#isOpen, this.#tries] = [text, isOpen, 0];
    this.#isWhole = this.#refers();
    if (!this.#isRendered) this.#write(this.#done);
    if (this.#piece && options && !isMissing && (options.isLive() || !isOpen)) wait(this);
    return this.shown;
  }

  get isOpen() {
    return this.#isOpen;
  }

  /** Return the text to render next. It does not end within a character. */
  next() {
    if (this.#isWhole) return this.#text;
    return this.#text.slice(this.#done, this.#done + this.#piece).replace(/[\ud800-\udbff]$/, "");
  }

  /** Show the tree of a text that `next` has returned. */
  draw({ nodes, settled, lines, references }, piece) {
    if (this.#isWhole ? piece !== this.#text : !this.#text.startsWith(piece, this.#done)) return wait(this); // it has changed meanwhile
    if (this.#isWhole) return this.shown.replaceChildren(...nodes.map(build));
    const end = this.#done + piece.length;
    const isCut = end < this.#text.length && piece.length > this.#piece - 2;
    if (isCut && !settled && this.#piece < MOST) {
      this.#piece = Math.min(MOST, this.#piece * 4);
      return wait(this);
    }
    const shown = isCut ? nodes.slice(0, settled) : nodes;
    patch(this.shown, this.#count, this.#trees, shown);
    this.#trees = shown.slice(settled);
    this.#count += settled;
    this.#done += lengthOf(piece, lines);
    this.#hasReferences ||= references && piece !== this.#text;
    this.#isWhole = this.#refers();
    this.#isRendered = !isCut;
    if (isCut) this.#write(this.#done);
    else this.#erase();
    if (settled) this.#piece = PIECE;
    else if (isCut) this.#piece = 0; // the rest stays as it is written
    if (this.#piece && (this.#isWhole || end < this.#text.length)) wait(this);
  }

  /** Show the unfinished blocks as they are written. Try again if the text is complete. */
  fail() {
    patch(this.shown, this.#count, this.#trees, []);
    [this.#trees, this.#isRendered] = [[], false];
    this.#write(this.#done);
    this.#tries += 1;
    if (!isMissing && !this.#isOpen && this.#tries < TRIES) setTimeout(wait, 2000, this);
  }

  /** Return true if a block of the complete text may refer to an address that another block defines. */
  #refers() {
    return this.#hasReferences && !this.#isOpen && this.#text.length <= MOST;
  }

  #begin() {
    this.shown.replaceChildren();
    [this.#done, this.#count, this.#trees, this.#isRendered, this.#hasReferences, this.#isWhole, this.#piece] = [0, 0, [], false, false, false, PIECE];
    this.#erase();
  }

  /** Show the text from a place on as it is written, in elements of some lines: only the last one changes when it grows. */
  #write(from) {
    const text = this.#text.slice(from);
    if (!text.startsWith(this.#written)) this.#erase();
    let last = this.#plain.lastChild?.firstChild;
    for (const line of text.slice(this.#written.length).split(/(?<=\n)/)) {
      if (!last || (last.length > LINES && last.data.endsWith("\n"))) {
        last = document.createTextNode("");
        this.#plain.append(element("div", {}, last));
      }
      last.appendData(line);
    }
    this.#written = text;
    if (text && !this.#plain.isConnected) this.shown.append(this.#plain);
  }

  #erase() {
    this.#written = "";
    this.#plain.replaceChildren();
    this.#plain.remove();
  }
}

/** Return the length of the first lines of a text. */
function lengthOf(text, lines) {
  const ends = /\r\n?|\n/g;
  for (let line = 0; line < lines; line += 1) ends.exec(text);
  return lines ? ends.lastIndex : 0;
}

function wait(text) {
  waiting.add(text);
  if (!isBusy) renderWaiting();
}

/** Render the waiting texts, with one request at a time. */
async function renderWaiting() {
  isBusy = true;
  while (waiting.size && !isMissing) {
    const began = performance.now();
    const batch = [];
    let size = 0;
    for (const text of waiting) {
      const piece = text.next();
      size += piece.length;
      if (batch.length && size > BATCH) break;
      waiting.delete(text);
      batch.push([text, piece]);
    }
    try {
      const trees = await options.ask(batch.map(([, piece]) => piece));
      options.change(() => batch.forEach(([text, piece], place) => text.draw(trees[place], piece)));
    } catch (error) {
      isMissing = error.code === 404 || error.code === 501;
      options.change(() => batch.forEach(([text]) => text.fail()));
    }
    // Leave most of the time to the page and the server: a longer block takes longer, and is rendered less often.
    const spent = performance.now() - began;
    if (batch.some(([text]) => text.isOpen)) await new Promise((resolve) => setTimeout(resolve, Math.min(1000, 3 * spent)));
    await new Promise(requestAnimationFrame);
  }
  isBusy = false;
}
