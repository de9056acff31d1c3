import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

// A button that opens a panel. A click outside, a choice inside and Escape close it.
export function Menu(props: { label: string; title: string; kind: string; children: ComponentChildren }) {
  const { label, title, kind, children } = props;
  const [isOpen, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!isOpen) return undefined;
    const onPointer = (e: Event) => {
      if (!box.current?.contains(e.target as Node)) setOpen(false);
    };
    const onKey = (e: KeyboardEvent) => {
      if (e.key === "Escape") setOpen(false);
    };
    document.addEventListener("pointerdown", onPointer);
    document.addEventListener("keydown", onKey);
    return () => {
      document.removeEventListener("pointerdown", onPointer);
      document.removeEventListener("keydown", onKey);
    };
  }, [isOpen]);
  return (
    <div ref={box} class={`menu ${kind}`}>
      <button type="button" class="menu-button" aria-expanded={isOpen} aria-label={title} title={title} onClick={() => setOpen(!isOpen)}>
        {label}
      </button>
      {isOpen && <div class="menu-panel" onClick={() => setOpen(false)}>{children}</div>}
    </div>
  );
}
