import { render } from "preact";
import { App } from "./app";
import { start } from "./live";
import { startModels } from "./models/model_store";
import "./style.css";
import { startTheme } from "./theme";

startTheme();
render(<App />, document.getElementById("app")!);
startModels();
start();
