import assert from "node:assert/strict";
import { test } from "node:test";
import { highlighted } from "../../src/markdown/highlight";

test("code keeps its text and gets kinds", () => {
  const pieces = highlighted('def f(x):\n  return "<b>"', "python")!;
  assert.equal(pieces.map((piece) => piece.text).join(""), 'def f(x):\n  return "<b>"');
  assert.ok(pieces.some((piece) => piece.text === "def" && piece.kind === "hljs-keyword"));
  assert.ok(pieces.every((piece) => /^(hljs-[\w-]+|)$/.test(piece.kind)));
  assert.equal(highlighted("x", "klingon"), null);
});

test("hostile code is colored in bounded time", () => {
  const languages = ["bash", "c", "cpp", "css", "diff", "go", "java", "js", "json", "python", "rust", "sql", "ts", "html", "yaml"];
  const pieces = ["(", "{", "`${", "<a ", "\"", "'", "/*", "//", "a.", "#", "0", "[", "$(", "--", "a:", " ", "\n", "<!--", "r#", "=>", "a(", "&", "-"];
  for (const language of languages) {
    for (const piece of pieces) {
      const code = piece.repeat(20_000 / piece.length);
      const before = process.cpuUsage();
      highlighted(code, language);
      const { user, system } = process.cpuUsage(before);
      const ms = (user + system) / 1000;
      assert.ok(ms < 1500, `${language}, ${JSON.stringify(piece)}: ${ms.toFixed(0)} ms`);
    }
  }
});
