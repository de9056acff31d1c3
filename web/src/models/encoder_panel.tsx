import { CopyButton } from "../copy_button";
import { count } from "../format";
import { type Encoder, exampleOf, routesOf } from "./encoder";
import { RouterModels } from "./models_panel";

// Shown instead of chat and dashboard for a model that generates no text.
export function EncoderPanel({ encoder }: { encoder: Encoder }) {
  const example = exampleOf(encoder, location.origin);
  const facts = [
    ["Model", encoder.name],
    encoder.maxTokens > 0 && ["Longest text", `${count(encoder.maxTokens)} tokens`],
    encoder.dimensions > 0 && !encoder.ranks && ["Embedding", `${count(encoder.dimensions)} numbers`],
  ].filter((fact) => fact !== false);
  return (
    <section class="cache encoder-panel" aria-label="Model">
      <RouterModels />
      <div class="card models encoder-card">
        <p>
          {encoder.ranks
            ? "This model scores pairs of texts and generates no text, so there is no chat and no cache to show."
            : "This model makes embeddings of texts and generates no text, so there is no chat and no cache to show."}
        </p>
        <dl class="encoder-facts">{facts.map(([name, value]) => <div><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
        <div class="scroll">
          <table>
            <thead><tr><th scope="col">Route</th><th scope="col">Answers with</th></tr></thead>
            <tbody>{routesOf(encoder).map(([route, use]) => <tr><td><code>{route}</code></td><td>{use}</td></tr>)}</tbody>
          </table>
        </div>
        <pre class="encoder-example" tabIndex={0}><code>{example}</code></pre>
        <CopyButton label="Copy this command" text={() => example} />
      </div>
    </section>
  );
}
