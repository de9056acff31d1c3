import { useMemo } from "preact/hooks";
import { CopyButton } from "../copy_button";
import { highlighted } from "./highlight";

const kMaxOpen = 6000; // characters that are highlighted again with every piece that arrives

// Code with its language, a copy button, and colors if the language is known. `isOpen`: the end has not arrived yet.
export function CodeBlock({ text, language, isOpen }: { text: string; language: string; isOpen: boolean }) {
  const isTooLong = isOpen && text.length > kMaxOpen;
  const pieces = useMemo(() => (isTooLong ? null : highlighted(text, language)), [text, language, isTooLong]);
  return (
    <div class="code-block">
      <div class="code-bar">
        <span class="code-language">{language || "text"}</span>
        <CopyButton label="Copy code" text={() => text} />
      </div>
      <pre tabIndex={0} aria-label={language ? `${language} code` : "code"}>
        <code>{pieces ? pieces.map(({ text: piece, kind }) => (kind ? <span class={kind}>{piece}</span> : piece)) : text}</code>
      </pre>
    </div>
  );
}
