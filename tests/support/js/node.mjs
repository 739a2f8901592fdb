// Runs the steps in Node and prints a line of JSON for each: `node node.mjs <server's URL> <a long text>`.

import { drive } from "./steps.mjs";

const [url, long] = process.argv.slice(2);
await drive(url, long, (line) => console.log(JSON.stringify(line)));
