import assert from "node:assert/strict";
import { test } from "node:test";
import type { ComponentChild, VNode } from "preact";
import { Markdown } from "../../src/markdown/blocks";

interface Drawn {
  html: string; // without attributes except href
  depth: number; // nesting of elements
}

// Renders a text. Components are represented by their names.
function drawn(text: string): Drawn {
  let deepest = 0;
  const parts: string[] = [];
  const visit = (node: ComponentChild | ComponentChild[], depth: number): void => {
    deepest = Math.max(deepest, depth);
    if (Array.isArray(node)) return node.forEach((child) => visit(child, depth));
    if (node === null || node === undefined || typeof node === "boolean") return;
    if (typeof node !== "object") return void parts.push(String(node));
    const { type, props } = node as VNode<Record<string, unknown>>;
    if (typeof type === "function") {
      const { text: code, tex, language } = props;
      return void parts.push(`{${type.name}${language ? ` ${language}` : ""}: ${code ?? tex}}`);
    }
    parts.push(type === "a" ? `<a ${props["href"]}>` : `<${type}>`);
    visit(props["children"] as ComponentChild[], depth + 1);
    if (type !== "br" && type !== "hr") parts.push(`</${type}>`);
  };
  visit((Markdown({ text }).props as { children: ComponentChild[] }).children, 0);
  return { html: parts.join(""), depth: deepest };
}

const html = (text: string) => drawn(text).html;
const p = (text: string) => html(text).replace(/^<p>(.*)<\/p>$/s, "$1");

function cpuMs(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

test("emphasis, code and strike-through nest as in CommonMark", () => {
  assert.equal(p("*a* **b** ***c***"), "<em>a</em> <strong>b</strong> <em><strong>c</strong></em>");
  assert.equal(p("**a *b* c**"), "<strong>a <em>b</em> c</strong>");
  assert.equal(p("*a **b***"), "<em>a <strong>b</strong></em>");
  assert.equal(p("~~gone~~ ~kept~"), "<del>gone</del> ~kept~");
  assert.equal(p("`a*b*` ``c`d``"), "<code>a*b*</code> <code>c`d</code>");
  assert.equal(p("snake_case_name and _this_"), "snake_case_name and <em>this</em>");
  assert.equal(p("2 * 3 * 4, a*"), "2 * 3 * 4, a*");
  assert.equal(p("*a **b*"), "*a *<em>b</em>");
  assert.equal(p("\\*plain\\*"), "*plain*");
});

test("links are made of safe addresses alone", () => {
  assert.equal(p("[a *b*](https://x.org/q_(r))"), "<a https://x.org/q_(r)>a <em>b</em></a>");
  assert.equal(p("[bad](javascript:alert(1))"), "[bad](javascript:alert(1))");
  assert.equal(p("[bad](data:text/html,x)"), "[bad](data:text/html,x)");
  assert.equal(p("see https://x.org/a_b, (https://y.org)."),
    "see <a https://x.org/a_b>https://x.org/a_b</a>, (<a https://y.org>https://y.org</a>).");
  assert.equal(p("[https://x.org](https://y.org)"), "<a https://y.org>https://x.org</a>");
  assert.equal(p("[a [b](https://x.org) c](mailto:y)"), "[a <a https://x.org>b</a> c](mailto:y)");
  assert.equal(p("*a [b* c](https://x.org)"), "<em>a [b</em> c](<a https://x.org>https://x.org</a>)");
});

test("formulas are found, and prices are none", () => {
  assert.equal(p("so $a_1 * b$ and \\(x\\)"), "so {Formula: a_1 * b} and {Formula: x}");
  assert.equal(p("$5 and $10, or 5$ and US$7"), "$5 and $10, or 5$ and US$7");
  assert.equal(html("\\[\na + b\n- c\n\\]"), "{Formula: a + b\n- c}");
  assert.equal(html("$$x^2$$"), "{Formula: x^2}");
  assert.equal(p("$2 + 2 = 4$ and $10 \\text{ km}$"), "{Formula: 2 + 2 = 4} and {Formula: 10 \\text{ km}}");
  assert.equal(p("a $$x$$ b"), "a {Formula: x} b");
});

test("lists hold paragraphs, code and other lists, also after blank lines", () => {
  assert.equal(html("1. a\n\n2. b\n   - c\n\n   d"),
    "<ol><li><p>a</p></li><li><p>b</p><ul><li><p>c</p></li></ul><p>d</p></li></ol>");
  assert.equal(html("- a\n  ```js\n  x\n  ```\n- b"), "<ul><li><p>a</p>{CodeBlock js: x}</li><li><p>b</p></li></ul>");
  assert.equal(html("- [x] done\n- [ ] open"), "<ul><li><p>☑ done</p></li><li><p>☐ open</p></li></ul>");
});

test("tables, quotes, rules and headings", () => {
  assert.equal(html("|a|b|\n|---|:-:|\n|1\\|2|**3**|"),
    "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1|2</td><td><strong>3</strong></td></tr></tbody></table></div>");
  assert.equal(html("> a\n> - b"), "<blockquote><p>a</p><ul><li><p>b</p></li></ul></blockquote>");
  assert.equal(html("## T\n---\ntext"), "<h3>T</h3><hr><p>text</p>");
});

test("a quote of 20,000 levels and a list of 1,200 are bounded", () => {
  const quote = drawn(">".repeat(20_000) + " x");
  assert.ok(quote.depth <= 30, `${quote.depth} elements deep`);
  assert.ok(quote.html.includes("x"));
  const list = drawn(Array.from({ length: 1200 }, (_, i) => `${" ".repeat(2 * i)}- item ${i}`).join("\n"));
  assert.ok(list.depth <= 40, `${list.depth} elements deep`);
  assert.ok(list.html.includes("item 1199"));
  assert.ok(drawn("- ".repeat(5000) + "x").depth <= 40);
  assert.ok(drawn("> - ".repeat(5000) + "x").depth <= 40);
  assert.ok(drawn("*a ".repeat(5000) + "b*".repeat(5000)).depth <= 30);
  assert.ok(drawn("[".repeat(5000) + "x" + "](https://x.org)".repeat(5000)).depth <= 30);
});

const kLength = 200_000;
const kCharacters = ["*", "_", "`", "[", "(", "<", ">", "#", "|", "~", "\\", "$", "!", "-", " ", "\n", "]", "\t"];
const kMixtures = [
  "*a ", "a* ", "**a ", "_a ", "*a_ ", "*_", "a**b*c ", "[a", "](", "[](", "[a](b", "![", "a](https://x ", "`` ` ", "~~a ", "~~", "$a", "\\(",
  "\\[", "$$\n", "\\[\n", "<https://", "https://", "<br", "- ", "1. ", "> ", "> - ", "|-", "|a|\n|-|\n", "# ", "```\n", "* a\n\n", "- *", "\\*", "a\\|b|",
  "[*", "*[", "*a [b* ", "-\n\n", "| ", "*** ", "x $a b$ y ",
];

for (const piece of [...kCharacters, ...kMixtures]) {
  test(`${kLength} characters of ${JSON.stringify(piece)} take time in proportion`, () => {
    const text = piece.repeat(Math.ceil(kLength / piece.length)).slice(0, kLength);
    const ms = cpuMs(() => assert.ok(drawn(text).depth <= 40));
    assert.ok(ms < 3000, `${ms.toFixed(0)} ms`);
  });
}

test("pairs of runs in every order take time in proportion", () => {
  // Openers first, then closers; nesting beyond the limit; failed searches must not be repeated.
  const n = kLength / 8;
  for (const [open, close] of [["*a ", "b* "], ["_a ", "b_ "], ["**a ", "b** "], ["*a _a ", "b* "], ["[ *a ", "b*]"], ["~~a *", "b~~ "],
    ["[", "](https://x)"], ["*a [", "](https://x) b*"], ["`", "``"]] as const) {
    const text = open.repeat(n) + close.repeat(n);
    const ms = cpuMs(() => assert.ok(drawn(text).depth <= 40));
    assert.ok(ms < 4000, `${JSON.stringify([open, close])}: ${ms.toFixed(0)} ms`);
  }
});
