import { useEffect, useState } from "preact/hooks";

// Copies a text. Browsers offer navigator.clipboard only to https pages and to pages of this machine.
export async function copyText(text: string): Promise<boolean> {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // Not allowed here; the older method may be.
    }
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.style.position = "fixed";
  area.style.opacity = "0";
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  return isCopied;
}

const kShownMs = 1500;

// Copies the result of `text` and shows a short confirmation.
export function CopyButton({ label, text }: { label: string; text: () => string }) {
  const [state, setState] = useState<"" | "Copied" | "Not copied">("");
  useEffect(() => {
    if (!state) return undefined;
    const timer = setTimeout(() => setState(""), kShownMs);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = async () => setState((await copyText(text())) ? "Copied" : "Not copied");
  return (
    <button type="button" class="quiet" aria-label={state || label} title={label} onClick={() => void copy()}>
      {state || "Copy"}
    </button>
  );
}
