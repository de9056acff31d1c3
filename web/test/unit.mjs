// node test/unit.mjs: runs the tests of web/test/unit, which need no browser. esbuild makes one module of each, and
// Node's own test runner runs them.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";

const web = fileURLToPath(new URL("..", import.meta.url));
const kOldMs = 3_600_000;
for (const path of readdirSync(web).filter((name) => name.startsWith(".unit-")).map((name) => `${web}/${name}`)) {
  if (Date.now() - statSync(path).mtimeMs > kOldMs) rmSync(path, { recursive: true }); // of a run that was killed
}
const out = mkdtempSync(`${web}/.unit-`);
try {
  await build({
    entryPoints: readdirSync(`${web}/test/unit`).map((name) => `${web}/test/unit/${name}`),
    outdir: out,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node18",
    jsx: "automatic",
    jsxImportSource: "preact",
    loader: { ".css": "empty" },
    logLevel: "error",
  });
  const files = readdirSync(out).filter((name) => name.endsWith(".mjs")).map((name) => `${out}/${name}`);
  const { status } = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" });
  process.exitCode = status ?? 1;
} finally {
  rmSync(out, { recursive: true });
}
