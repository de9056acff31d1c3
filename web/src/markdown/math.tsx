import { useLayoutEffect, useRef } from "preact/hooks";
import temml from "temml";

export const kMaxFormula = 4000; // characters
const kMaxDepth = 60; // nesting of elements: browsers lay them out recursively
const kMaxElements = 4000;

// Commands that define others: a few of them can expand to a formula of any size.
const kDefines = /\\([gex]?def|(re|provide)?newcommand|providecommand|let|futurelet|global)(?![A-Za-z])/;

function isTooLarge(root: Element): boolean {
  const elements = root.getElementsByTagName("*");
  if (elements.length > kMaxElements) return true;
  let depth = 0;
  let node: Element = root;
  for (;;) {
    if (node.firstElementChild) {
      node = node.firstElementChild;
      if (++depth > kMaxDepth) return true;
      continue;
    }
    while (node !== root && !node.nextElementSibling) {
      node = node.parentElement!;
      depth -= 1;
    }
    if (node === root) return false;
    node = node.nextElementSibling!;
  }
}

// Returns a formula as MathML elements made by Temml, or null if it is invalid.
function mathOf(tex: string, isDisplay: boolean): Element | null {
  if (tex.length > kMaxFormula || kDefines.test(tex)) return null;
  const box = document.createElement("span");
  try {
    temml.render(tex, box, { displayMode: isDisplay, throwOnError: true, trust: false, maxExpand: 500, maxSize: [20, 20], macros: {} });
  } catch {
    return null; // not LaTeX, or nested too deeply
  }
  return isTooLarge(box) ? null : box.firstElementChild;
}

// A formula without its delimiters, or its source if it is invalid.
export function Formula(props: { tex: string; isDisplay: boolean; source: string }) {
  const { tex, isDisplay, source } = props;
  const host = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    const math = mathOf(tex, isDisplay);
    if (math) {
      host.current!.replaceChildren(math);
      return;
    }
    const code = document.createElement("code");
    code.textContent = source;
    host.current!.replaceChildren(code);
  }, [tex, isDisplay, source]);
  return <span ref={host} class={isDisplay ? "formula display" : "formula"} />;
}
