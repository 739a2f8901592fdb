// Frame of the drivers in JavaScript; it does what play.py does for those in Python.

import { readFileSync, writeFileSync } from "node:fs";

const NOTHING = "(nothing)";

export async function play(Conversation) {
  const { url, cells, into } = JSON.parse(readFileSync(0, "utf8"));
  const texts = {};
  const playAll = async (cells) => {
    for (const cell of cells) texts[cell.name] = await shown(new Conversation(`${url}/agents/${cell.agent}/`), cell);
  };
  const slow = cells.filter((cell) => cell.slow).map((cell) => [cell]);
  await Promise.all([...slow, cells.filter((cell) => !cell.slow)].map(playAll));
  writeFileSync(into, JSON.stringify(texts));
  process.exit(); // Without it, Node would wait for the connections that are kept alive.
}

async function shown(conversation, { call, arguments: calls }) {
  const seen = [];
  for (const given of calls) {
    try {
      seen.push((await conversation[call](...given)).trim() || NOTHING);
    } catch (error) {
      seen.push(`${error.constructor.name}: ${error.message}`);
    }
  }
  return seen.join(" → ");
}

// What a program for the terminal shows: texts as they come, each artifact and message once.
export class Screen {
  #texts = [];

  add(key, text, { append = false } = {}) {
    const last = this.#texts.at(-1);
    if (append && last?.key === key) last.text += text;
    else if (text && !this.#texts.some((each) => each.key === key && each.text === text)) this.#texts.push({ key, text });
  }

  toString() {
    return this.#texts.map(({ text }) => text).join(" | ");
  }
}
