// Calls a server from pages of other origins in a browser: node test/origins.mjs SERVER ELSEWHERE. SERVER is its
// address, ELSEWHERE that of a page from another origin. Prints the results as one line of JSON;
// tests/e2e/origins_test.py checks it.
import { chromium } from "playwright-core";

const [, , server, elsewhere] = process.argv;
const rebound = "evil.example";

// Returns the result of a page's request: the status with the beginning of the answer, or the browser's error.
async function ask(page, url, options = {}) {
  return page.evaluate(
    async ([to, how]) => {
      try {
        const answer = await fetch(to, how);
        return { type: answer.type, status: answer.status, text: (await answer.text()).slice(0, 200) };
      } catch (error) {
        return { refused: String(error) };
      }
    },
    [url, options],
  );
}

const body = JSON.stringify({ prompt: "ROMEO:", max_tokens: 3, temperature: 0 });
const post = (headers, more = {}) => ({ method: "POST", body, headers, ...more });
const json = { "Content-Type": "application/json" };

const browser = await chromium.launch({
  executablePath: process.env.KVIK_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", `--host-resolver-rules=MAP ${rebound} 127.0.0.1`],
});
try {
  const page = await (await browser.newContext()).newPage();
  const saw = {};
  await page.goto(server);
  saw.own = await ask(page, "/v1/completions", post(json));

  await page.goto(elsewhere);
  saw.get = await ask(page, `${server}v1/models`);
  saw.json = await ask(page, `${server}v1/completions`, post(json));
  saw.key = await ask(page, `${server}v1/completions`, post({ ...json, Authorization: "Bearer x", "x-stainless-os": "Linux" }));
  saw.text = await ask(page, `${server}v1/completions`, post({ "Content-Type": "text/plain" }));
  // A request without a preflight and with an unreadable answer: the test checks whether it ran.
  saw.blind = await ask(page, `${server}v1/completions`, post({ "Content-Type": "text/plain" }, { mode: "no-cors" }));

  // A foreign host name that resolves to this server, as in DNS rebinding: for the browser it is one origin.
  const port = new URL(server).port;
  await page.goto(`http://${rebound}:${port}/health`);
  saw.rebound = await ask(page, "/v1/models");
  saw.reboundPost = await ask(page, "/v1/completions", post(json));
  saw.reboundPage = (await page.goto(`http://${rebound}:${port}/`)).status();
  console.log(JSON.stringify(saw));
} finally {
  await browser.close();
}
process.exit(0);
