// node inline.mjs NAME: embeds script and style into dist/NAME.html. The Content-Security-Policy allows only these
// two, by their hashes. For the index it is written to dist/policy.txt, and the server sends it as a header; a report
// is opened as a file and contains it as an element.
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

// Inside a script element, "</script" ends it, and "<!--" followed by "<script" changes where it ends. These only
// occur in strings and regular expressions, where "<" may be written as an escape.
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
  ...(isServed ? ["frame-ancestors 'none'"] : []), // has no effect in an element
].join("; ");
if (isServed) writeFileSync(new URL("policy.txt", dist), policy + "\n");
else page = page.replace(/<meta charset="[^"]*"\s*\/?>/, (meta) => `${meta}<meta http-equiv="Content-Security-Policy" content="${policy}">`);
writeFileSync(new URL(file, dist), page);
rmSync(assets, { recursive: true });

const limitBytes = 250 * 1024;
const bytes = gzipSync(page, { level: 9 }).length;
console.error(`dist/${file}: ${page.length} bytes, ${bytes} gzipped`);
if (bytes > limitBytes) throw new Error(`${bytes} bytes gzipped, expected at most ${limitBytes}`);
