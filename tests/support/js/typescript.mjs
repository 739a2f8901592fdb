// Checks the TypeScript program on standard input with `strict`, and runs it.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import ts from "typescript";

const folder = mkdtempSync(fileURLToPath(new URL("program-", import.meta.url)));
const file = `${folder}/program.mts`;
writeFileSync(file, readFileSync(0));
const { NodeNext: module } = ts.ModuleKind;
const program = ts.createProgram([file], { strict: true, skipLibCheck: true, target: ts.ScriptTarget.ES2022, module });
const faults = ts.getPreEmitDiagnostics(program);
if (faults.length) {
  const host = { getCanonicalFileName: (name) => name, getCurrentDirectory: () => folder, getNewLine: () => "\n" };
  console.log(ts.formatDiagnostics(faults, host));
  process.exit(1);
}
program.emit();
await import(`${folder}/program.mjs`);
rmSync(folder, { recursive: true });
