import { render } from "preact";
import "../style.css";
import { startTheme } from "../theme";
import "./explain.css";
import type { Report } from "./report";
import { ReportPage } from "./report_page";

startTheme();
const report = JSON.parse(document.getElementById("report")!.textContent!) as Report | null;
document.title = report ? `Kvik explains ${report.model}` : document.title;
render(report ? <ReportPage report={report} /> : <p>This report is empty.</p>, document.getElementById("app")!);
