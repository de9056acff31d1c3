import { useStore } from "../store";
import { ThemeSwitch } from "../theme_switch";
import { themeStore } from "../theme";
import type { Report } from "./report";
import { Story } from "./story";

export function ReportPage({ report }: { report: Report }) {
  useStore(themeStore);
  const g = report.geometry;
  const made = report.time ? new Date(report.time * 1000).toISOString().slice(0, 16).replace("T", " ") : "";
  return (
    <main class="report">
      <header class="report-head">
        <h1>Why the second token is fast</h1>
        <span><b>{report.model}</b>{g && <span class="muted"> {g.architecture}, {g.layers} layers, {g.heads} query and {g.kv_heads} KV heads of {g.head_dim}, {g.kv_type} pages</span>}</span>
        <span class="muted small">
          {report.machine && `${report.machine.threads} threads, ${report.machine.backend}; `}kvik {report.version}, {made} UTC
          {report.took_s !== undefined && `, measured in ${report.took_s.toFixed(0)} s`}
        </span>
        <ThemeSwitch />
      </header>
      <Story report={report} />
    </main>
  );
}
