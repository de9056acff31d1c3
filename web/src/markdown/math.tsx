import { useLayoutEffect, useRef } from "preact/hooks";
import temml from "temml";

export const kMaxFormula = 4000; // characters
const kMaxDepth = 60; // of elements: browsers lay them out recursively
const kMaxElements = 4000;

// Commands that define others: a few of them make a formula of any size.
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

// A formula as MathML, which Temml makes as elements; null where it cannot be read.
function mathOf(tex: string, isDisplay: boolean): Element | null {
  if (tex.length > kMaxFormula || kDefines.test(tex)) return null;
  const box = document.createElement("span");
  try {
    temml.render(tex, box, { displayMode: isDisplay, throwOnError: true, trust: false, maxExpand: 500, maxSize: [20, 20], macros: {} });
  } catch {
    return null; // not LaTeX, or nested beyond all measure
  }
  return isTooLarge(box) ? null : box.firstElementChild;
}

// A formula between its signs; where it cannot be read, its source.
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
