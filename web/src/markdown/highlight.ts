import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";

const kMaxHighlighted = 20_000; // characters

const lowlight = createLowlight({ bash, c, cpp, css, diff, go, java, javascript, json, python, rust, sql, typescript, xml, yaml });

export interface Piece {
  text: string;
  kind: string; // a class of highlight.js such as "hljs-keyword", or empty
}

type Node = ReturnType<typeof lowlight.highlight>["children"][number];

// Splits code into pieces with one class each. Returns null if the language is unknown or the code is too long. The
// tree of highlight.js is flattened, because its depth is unbounded.
export function highlighted(code: string, language: string): Piece[] | null {
  const name = language.toLowerCase();
  if (code.length > kMaxHighlighted || !lowlight.registered(name)) return null;
  const pieces: Piece[] = [];
  const open: { nodes: Node[]; at: number; kind: string }[] = [];
  open.push({ nodes: lowlight.highlight(name, code).children as Node[], at: 0, kind: "" });
  while (open.length > 0) {
    const level = open.at(-1)!;
    const node = level.nodes[level.at++];
    if (!node) open.pop();
    else if (node.type === "text") pieces.push({ text: node.value, kind: level.kind });
    else if (node.type === "element") open.push({ nodes: node.children, at: 0, kind: kindOf(node.properties["className"]) || level.kind });
  }
  return pieces;
}

function kindOf(names: unknown): string {
  return Array.isArray(names) ? String(names[0] ?? "") : "";
}
