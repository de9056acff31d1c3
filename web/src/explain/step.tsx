import type { ComponentChildren } from "preact";

export function Step({ number, title, children }: { number: number; title: string; children: ComponentChildren }) {
  return (
    <section class="card step" aria-labelledby={`step-${number}`}>
      <h2 id={`step-${number}`}><span class="step-number">{number}</span>{title}</h2>
      {children}
    </section>
  );
}
