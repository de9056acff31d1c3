// Opens a report of `kvik explain` in a browser: node test/report.mjs FILE. Prints the results as one line of JSON;
// tests/e2e/explain_test.py checks it. KVIK_SCREENSHOTS is a folder for screenshots.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [, , file] = process.argv;
const pictures = process.env.KVIK_SCREENSHOTS;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const kViews = {
  light: { colorScheme: "light", viewport: { width: 1200, height: 900 } },
  dark: { colorScheme: "dark", viewport: { width: 1200, height: 900 } },
  phone: { colorScheme: "light", viewport: { width: 390, height: 844 } },
};

async function open(browser, options) {
  const context = await browser.newContext({ reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.complaints = [];
  page.requests = [];
  page.on("console", (message) => { if (message.type() === "error") page.complaints.push(message.text()); });
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("request", (request) => { if (!/^(data|file):/.test(request.url())) page.requests.push(request.url()); });
  await page.goto(pathToFileURL(file).href);
  await page.locator(".plot svg").first().waitFor();
  // Each plot is drawn when its box has been measured, not all in one frame.
  await page.waitForFunction(() => [...document.querySelectorAll(".plot")].every((plot) => plot.querySelector("svg[role=img]")));
  return page;
}

// Reads the report under its own policy: its text and requests, and whether it can be used with the keyboard.
async function read(browser) {
  const page = await open(browser, kViews.light);
  const seen = await page.evaluate(() => ({
    title: document.title,
    steps: [...document.querySelectorAll(".step h2")].map((e) => e.textContent),
    pieces: [...document.querySelectorAll(".piece")].map((e) => e.textContent),
    charts: [...document.querySelectorAll("svg[role=img]")].map((e) => e.getAttribute("aria-label")),
    unlabelled: document.querySelectorAll(".plot svg:not([role=img]):not([aria-hidden])").length,
    strokes: [...document.querySelectorAll(".plot path[d]")].filter((e) => /NaN|undefined/.test(e.getAttribute("d"))).length,
    nonsense: document.body.innerText.match(/NaN|undefined|Infinity/g) ?? [],
    wasHarmed: Boolean(window.harmed),
  }));
  await page.locator(".numbers summary").focus();
  await page.keyboard.press("Enter");
  const rows = await page.locator(".numbers tbody tr").count();
  await page.getByRole("button", { name: /Theme/ }).click();
  await page.getByRole("button", { name: /Theme/ }).click();
  const theme = await page.evaluate(() => document.documentElement.dataset.theme);
  return { ...seen, rows, theme, complaints: page.complaints, requests: page.requests };
}

async function look(browser, name) {
  const page = await open(browser, { ...kViews[name], bypassCSP: true });
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run());
  if (pictures) await page.screenshot({ path: `${pictures}/report-${name}.png`, fullPage: true });
  await page.context().close();
  const serious = violations.filter((v) => v.impact === "serious" || v.impact === "critical");
  return {
    overflow: overflow > 0 ? [`${name}: ${overflow} px`] : [],
    faults: serious.map((v) => `${name}: ${v.id}: ${v.nodes.map((n) => n.target.join(" ")).join(", ")}`),
  };
}

const browser = await chromium.launch({
  executablePath: process.env.KVIK_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
try {
  const looks = [];
  for (const name of Object.keys(kViews)) looks.push(await look(browser, name));
  console.log(JSON.stringify({
    ...(await read(browser)),
    overflow: looks.flatMap((l) => l.overflow),
    faults: looks.flatMap((l) => l.faults),
  }));
} finally {
  await browser.close();
}
process.exit(0);
