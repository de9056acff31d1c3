// node inline.mjs NAME: puts script and style into dist/NAME.html. The Content-Security-Policy that lets
// these two run, by their hashes, and nothing else, is written to dist/policy.txt for the index, which a
// server sends; a report is opened as a file and says it itself.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const name = process.argv[2];
const file = `${name}.html`;
const dist = new URL("./dist/", import.meta.url);
const assets = new URL("assets/", dist);
const files = readdirSync(assets);
const only = (suffix) => {
  const found = files.filter((name) => name.endsWith(suffix));
  if (found.length !== 1) throw new Error(`expected one ${suffix} in dist/assets, got: ${files}`);
  return readFileSync(new URL(found[0], assets), "utf8").trim();
};
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

// Inside a script element "</script" ends it, and "<!--" with "<script" changes where it ends. Strings and regular
// expressions, the only places that hold them, may spell "<" as an escape.
const script = only(".js").replace(/<(?=!--|\/?script)/gi, "\\x3c");
const style = only(".css");
let page = readFileSync(new URL(file, dist), "utf8");
page = page.replace(/\s*<script[^>]*src=[^>]*><\/script>/, "").replace(/\s*<link rel="stylesheet"[^>]*>/, "");
page = page.replace("</head>", () => `<style>${style}</style></head>`);
page = page.replace("</body>", () => `<script type="module">${script}</script></body>`);
if (/(src|href)="(?!data:|#)/.test(page.replace(script, ""))) throw new Error("the page asks for another file");

const isServed = name === "index";
const policy = [
  "default-src 'none'",
  `script-src ${hash(script)}`,
  `style-src ${hash(style)}`,
  "img-src data:",
  ...(isServed ? ["connect-src 'self'"] : []),
  "base-uri 'none'",
  "form-action 'none'",
  ...(isServed ? ["frame-ancestors 'none'"] : []), // it means nothing in an element
].join("; ");
if (isServed) writeFileSync(new URL("policy.txt", dist), policy + "\n");
else page = page.replace(/<meta charset="[^"]*"\s*\/?>/, (meta) => `${meta}<meta http-equiv="Content-Security-Policy" content="${policy}">`);
writeFileSync(new URL(file, dist), page);
rmSync(assets, { recursive: true });

const limitBytes = 250 * 1024;
const bytes = gzipSync(page, { level: 9 }).length;
console.error(`dist/${file}: ${page.length} bytes, ${bytes} gzipped`);
if (bytes > limitBytes) throw new Error(`${bytes} bytes gzipped, expected at most ${limitBytes}`);
