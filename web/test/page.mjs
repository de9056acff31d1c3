// Uses the page in a browser like a user: node test/page.mjs SCENARIO URL [TEXT]. Prints the results as one line of
// JSON; tests/e2e/page_test.py checks it. When a scenario prints "ask NAME", it waits for a line on stdin.
// KVIK_SCREENSHOTS is a folder for screenshots.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const kSystem = "You are the ghost of a king who walks the castle at night. ".repeat(12).trim();
const kPatience = 60_000;
const [, , scenario, url, given] = process.argv;
const pictures = process.env.KVIK_SCREENSHOTS;
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function ask(name) {
  console.log(JSON.stringify({ ask: name }));
  await answers.next();
}

// Opens a page and collects its errors, including violations of the content security policy. `link` is the state of
// the connection to wait for.
async function open(browser, options = {}, link = "live") {
  const context = await browser.newContext({ viewport: { width: 1440, height: 960 }, reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(kPatience);
  page.complaints = [];
  page.hosts = new Set();
  page.on("console", (message) => {
    const isExpected = /Failed to load resource|net::ERR_/.test(message.text());
    if (message.type() === "error" && !isExpected) page.complaints.push(message.text());
  });
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  page.on("request", (request) => {
    if (!request.url().startsWith("data:")) page.hosts.add(new URL(request.url()).host);
  });
  await page.goto(url);
  await page.getByText(link, { exact: true }).waitFor();
  return page;
}

async function setSystem(page, text, maxTokens) {
  await page.getByText("System prompt and sampling").click();
  await page.getByLabel("System prompt of every chat").fill(text);
  await page.getByLabel("Max tokens").fill(String(maxTokens));
  await page.getByLabel("Seed").fill("1");
  await page.getByLabel("Max tokens").blur();
  await page.getByText("System prompt and sampling").click();
}

const button = (page, name) => page.getByRole("button", { name, exact: true });

// Sends a message and waits for the end of the answer. Returns the texts below the prompt and below the answer.
async function say(page, text) {
  const before = await page.locator(".message.assistant").count();
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.keyboard.press("Enter");
  await page.locator(".message.assistant").nth(before).waitFor();
  await button(page, "Send").waitFor();
  const cost = page.locator(".message.user").nth(before).locator(".cost-text");
  await cost.waitFor();
  const [cached, computed] = (await cost.locator("b").allTextContents()).map((n) => Number(n.replaceAll(",", "")));
  const answer = page.locator(".message.assistant").nth(before);
  return { cached, computed, text: await answer.locator(".markdown").innerText(), facts: await answer.locator(".facts").innerText() };
}

async function openChat(page, title) {
  await page.locator(".chats-menu .menu-button").click();
  await page.locator(".chats-menu .chat-list").getByRole("button", { name: title, exact: true }).click();
}

async function inMenu(page, item) {
  await button(page, "Rename, export or delete this chat").click();
  await button(page, item).click();
}

async function titles(page) {
  await page.locator(".chats-menu .menu-button").click();
  const all = await page.locator(".chats-menu .chat-list button").allInnerTexts();
  await page.keyboard.press("Escape");
  return all;
}

// Makes answers continue up to their limit, because the demo's answers are short.
async function makeTalkative(page) {
  await page.route("**/v1/chat/completions", (route) =>
    route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), ignore_eos: true }) }));
}

// Returns an answer as the server streams it, in one piece.
function streamOf(text) {
  return [{ delta: { role: "assistant", content: text } }, { delta: {}, finish_reason: "stop" }]
    .map((choice) => `data: ${JSON.stringify({ choices: [choice] })}\n\n`).join("") + "data: [DONE]\n\n";
}

async function count(page, kind) {
  return Number((await page.locator(`[data-count=${kind}]`).innerText()).replaceAll(",", ""));
}

async function picture(page, name) {
  if (pictures) await page.screenshot({ path: `${pictures}/${name}.png` });
}

const scenarios = {
  // The text grows while it is generated, and the second message hits the cache.
  async chat(browser) {
    const page = await open(browser);
    await makeTalkative(page);
    await setSystem(page, kSystem, 700);
    await page.evaluate(() => {
      window.lengths = new Set();
      const note = () => window.lengths.add(document.querySelector(".message.assistant .markdown")?.textContent.length);
      new MutationObserver(note).observe(document.querySelector(".log"), { subtree: true, childList: true, characterData: true });
    });
    // Throttles the stream to the speed of a larger model, independently of the machine's load.
    const network = await page.context().newCDPSession(page);
    const throttle = (bytesPerSecond) => network.send("Network.emulateNetworkConditions",
      { offline: false, latency: 0, downloadThroughput: bytesPerSecond, uploadThroughput: -1 });
    await network.send("Network.enable");
    await throttle(50000);
    const long = await say(page, "Speak, and at length.");
    await throttle(-1);
    const lengths = await page.evaluate(() => [...window.lengths].filter((n) => n > 0));
    await page.unroute("**/v1/chat/completions");
    await button(page, "New chat").click();
    await setSystem(page, kSystem, 60);
    const first = await say(page, "Who goes there?");
    const second = await say(page, "And who are you?");
    await picture(page, "chat");
    return { long, first, second, lengths, complaints: page.complaints, hosts: [...page.hosts] };
  },

  async sharing(browser) {
    const page = await open(browser);
    await setSystem(page, kSystem, 24);
    const first = await say(page, "Who goes there?");
    const before = await count(page, "shared");
    await button(page, "New chat").click();
    const second = await say(page, "What is the hour?");
    await page.waitForFunction(
      (n) => Number(document.querySelector("[data-count=shared]").textContent.replaceAll(",", "")) > n, before);
    // Selects by keyboard the first page of the text that both chats begin with.
    await page.locator(".map-canvas").focus();
    await page.keyboard.press("ArrowRight");
    await page.locator("#page-detail dl").waitFor();
    const detail = await page.locator("#page-detail").innerText();
    await page.keyboard.press("Escape");
    const isDeselected = (await page.locator("#page-detail dl").count()) === 0;
    return { first, second, before, after: await count(page, "shared"), detail, isDeselected, complaints: page.complaints };
  },

  // Two chats, of which the second message changes the system prompt of the first.
  async sessions(browser) {
    const page = await open(browser);
    const before = await page.locator(".sessions").count();
    await setSystem(page, kSystem, 8);
    await say(page, "Who goes there?");
    await setSystem(page, `Be brief. ${kSystem}`, 8);
    await say(page, "What is the hour?");
    await page.waitForFunction(() => /[1-9]/.test(document.querySelector(".sessions .causes")?.parentElement.textContent ?? ""));
    const text = await page.locator(".sessions tbody tr").first().innerText();
    return { before, text, rows: await page.locator(".sessions tbody tr").count(), complaints: page.complaints };
  },

  // Other clients use the server while the page is open.
  async others(browser) {
    const page = await open(browser);
    await page.evaluate(() => {
      window.most = { strips: 0, inUse: 0, shared: 0 };
      const note = (name, n) => (window.most[name] = Math.max(window.most[name], n));
      const count = (kind) => Number(document.querySelector(`[data-count=${kind}]`)?.textContent.replaceAll(",", ""));
      new MutationObserver(() => {
        note("strips", document.querySelectorAll(".strip:not(.over)").length);
        note("inUse", count("sealed"));
        note("shared", count("shared"));
      }).observe(document.body, { subtree: true, childList: true, characterData: true });
    });
    const talk = async (i) => {
      const messages = [{ role: "system", content: kSystem }, { role: "user", content: `Speak of the number ${i}.` }];
      const body = JSON.stringify({ messages, max_tokens: 600, ignore_eos: true });
      const answer = await fetch(`${url}v1/chat/completions`, { method: "POST", body, headers: { "Content-Type": "application/json" } });
      return (await answer.json()).usage.completion_tokens;
    };
    const all = Promise.all([...Array(12).keys()].map(talk));
    if (pictures) await page.waitForTimeout(300);
    await picture(page, "others");
    const tokens = await all;
    await page.locator(".strip.over").first().waitFor();
    return { tokens, most: await page.evaluate(() => window.most), strip: await page.locator(".strip.over").first().innerText() };
  },

  // Takes the screenshots of the README: two chats with a common beginning, while other clients are active.
  async portrait(browser) {
    for (const colorScheme of ["light", "dark"]) {
      const page = await open(browser, { colorScheme, viewport: { width: 1440, height: 1010 } });
      await setSystem(page, kSystem, 90);
      await say(page, "Who goes there?");
      await say(page, "And who are you?");
      await button(page, "New chat").click();
      await say(page, "What is the hour?");
      let isOver = false;
      const talk = async (speaker) => {
        for (let i = speaker; !isOver; i += 10) {
          const content = `Speak of the number ${i}, and at length.`;
          await fetch(`${url}v1/chat/completions`, {
            method: "POST",
            headers: { "Content-Type": "application/json" },
            body: JSON.stringify({ messages: [{ role: "system", content: kSystem }, { role: "user", content }], max_tokens: 700, ignore_eos: true }),
          }).then((answer) => answer.json());
        }
      };
      const all = Promise.all([1, 2, 3, 4].map(talk));
      await page.waitForTimeout(9000);
      await say(page, "And what was that?");
      await page.locator(".strip:not(.over)").nth(3).waitFor();
      await picture(page, `page-${colorScheme}`);
      isOver = true;
      await all;
      await page.context().close();
    }
    return {};
  },

  async follow(browser) {
    const page = await open(browser, { viewport: { width: 1440, height: 500 } });
    await makeTalkative(page);
    await setSystem(page, "You are a ghost.", 100);
    const log = page.locator(".log");
    const toGo = () => log.evaluate((el) => Math.round(el.scrollHeight - el.scrollTop - el.clientHeight));
    const ends = [];
    for (const text of ["Who goes there?", "And who are you?", "Whence do you come?", "Tell me of the sea.", "And of the night?"]) {
      await say(page, text);
      ends.push(await toGo());
    }
    const height = await log.evaluate((el) => el.scrollHeight - el.clientHeight);
    // The view does not follow the answer after the user scrolls up, and sending a message scrolls to the end. The
    // demo is fast.
    const network = await page.context().newCDPSession(page);
    const slowDown = (bytes) => network.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: bytes, uploadThroughput: -1 });
    await slowDown(10_000);
    await page.getByLabel("Message", { exact: true }).fill("Speak once more.");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => {
      const answers = [...document.querySelectorAll(".message.assistant .markdown")];
      return answers.length === 6 && answers.at(-1).textContent.length > 20;
    });
    await log.hover();
    await page.mouse.wheel(0, -300);
    await page.waitForFunction(() => document.querySelector(".to-end"));
    const isRunning = await button(page, "Stop").isVisible();
    await button(page, "Send").waitFor();
    const away = await toGo();
    await slowDown(-1);
    await say(page, "Farewell.");
    return { ends, height, isRunning, away, sent: await toGo(), complaints: page.complaints };
  },
  async stop(browser) {
    const page = await open(browser);
    await makeTalkative(page);
    await setSystem(page, kSystem, 700);
    // The demo is fast, and a browser on a busy machine may show its answer only after it has ended.
    const network = await page.context().newCDPSession(page);
    await network.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: 30_000, uploadThroughput: -1 });
    await page.evaluate(() => {  // as soon as there are words
      const stop = () => {
        if ((document.querySelector(".message.assistant .markdown")?.textContent ?? "").length < 5) return;
        [...document.querySelectorAll("button")].find((b) => b.textContent === "Stop")?.click();
      };
      new MutationObserver(stop).observe(document.querySelector(".log"), { subtree: true, childList: true, characterData: true });
    });
    await page.getByLabel("Message", { exact: true }).fill("Speak, and at length.");
    await page.keyboard.press("Enter");
    await page.locator(".message.assistant .facts").filter({ hasText: "stopped" }).waitFor();
    await button(page, "Send").waitFor();
    await page.waitForFunction(() => document.querySelectorAll(".strip:not(.over)").length === 0);
    return { facts: await page.locator(".message.assistant .facts").innerText(), complaints: page.complaints };
  },

  // Pages that do not fit in memory are read from disk.
  async disk(browser) {
    const page = await open(browser);
    await setSystem(page, kSystem, 16);
    await say(page, "Who goes there?");
    await page.waitForFunction(() => document.querySelector("[data-count=cached]").textContent !== "0");
    await page.locator(".map-canvas").focus();
    for (let n = await count(page, "cached"); n > 0; --n) await page.keyboard.press("ArrowRight");
    // The last page is saved when the engine is idle.
    await page.getByText("memory, and saved to a tier").waitFor();
    await page.keyboard.press("Escape");
    await ask("fill");
    // Writing takes time when other programs use the disk.
    await page.waitForFunction(() => Number(document.querySelector("[data-count=disk]").textContent.replaceAll(",", "")) > 100);
    const onDisk = await count(page, "disk");
    await button(page, "New chat").click();
    const answer = await say(page, "What is the hour?");
    await page.locator(".map-canvas").focus();
    let detail = "";
    for (let i = 0; i < 400 && !detail.includes("read from a tier"); ++i) {
      await page.keyboard.press("ArrowRight");
      detail = await page.locator("#page-detail").innerText();
    }
    await picture(page, "disk");
    const kinds = await page.locator(".kinds-bar").getAttribute("aria-label");
    return { onDisk, answer, detail, kinds };
  },

  async restart(browser) {
    const page = await open(browser);
    await setSystem(page, kSystem, 16);
    await say(page, "Who goes there?");
    await page.waitForFunction(() => document.querySelector("[data-count=cached]").textContent !== "0");
    const before = await count(page, "cached");
    await ask("stop");
    await page.getByText("no connection, retrying").waitFor();
    const isGrey = await page.locator(".cache.stale").isVisible();
    const note = await page.locator(".stale-note").innerText();
    await picture(page, "stale");
    await page.getByLabel("Message", { exact: true }).fill("Anybody?");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").waitFor();
    const error = await page.getByRole("alert").innerText();
    await ask("start");
    await page.getByText("live", { exact: true }).waitFor();
    const after = await count(page, "cached");
    const isColouredAgain = (await page.locator(".cache.stale").count()) === 0;
    const answer = await say(page, "Who goes there?");
    return { before, after, error, answer, isGrey, note, isColouredAgain, complaints: page.complaints };
  },

  async key(browser) {
    const context = await browser.newContext();
    const page = await context.newPage();
    page.setDefaultTimeout(kPatience);
    await page.goto(url);
    await page.getByRole("dialog").waitFor();
    await page.getByLabel(/API key; stored/).fill("sesame");
    await button(page, "Use it").click();
    const refusal = await page.getByRole("alert").innerText();
    await page.getByLabel(/API key; stored/).fill("open-sesame");
    await button(page, "Use it").click();
    await page.getByText("live", { exact: true }).waitFor();
    await setSystem(page, kSystem, 16);
    return { refusal, answer: await say(page, "Who goes there?"), hasDialog: await page.getByRole("dialog").isVisible() };
  },

  // Before the first request, no chart shows values.
  async empty(browser) {
    const page = await open(browser);
    await page.waitForTimeout(1500); // time for one sample
    const inked = await page.evaluate(() => [...document.querySelectorAll(".chart")].map((chart) => {
      const canvas = chart.querySelector("canvas");
      if (!canvas) return null;
      const left = canvas.getContext("2d").getImageData(0, 0, 50 * devicePixelRatio, canvas.height - 24 * devicePixelRatio).data;
      return left.some((v, i) => i % 4 === 3 && v > 0); // labels of the axis
    }).filter((v) => v !== null));
    await picture(page, "empty");
    await button(page, "Explain").click();
    const promise = await page.locator(".announcement").innerText();
    await picture(page, "empty-explain");
    return { inked, promise };
  },

  // The browser stores chats until they are deleted.
  async reload(browser) {
    const page = await open(browser);
    await setSystem(page, kSystem, 16);
    await say(page, "Who goes there?");
    await button(page, "New chat").click();
    await setSystem(page, kSystem, 16);
    await say(page, "What is the hour?");
    const shown = () => page.locator(".messages").innerText();
    const before = await shown();
    await page.reload();
    const after = await shown();
    await openChat(page, "Who goes there?");
    const other = await shown();
    const again = await say(page, "And now?");
    await inMenu(page, "Delete chat");
    await page.waitForTimeout(600);
    await page.reload();
    const left = await titles(page);
    return { before, after, other, again, left, complaints: page.complaints };
  },

  // Renaming, deleting, undoing and exporting; many chats, with the current one in view.
  async manage(browser) {
    const page = await open(browser);
    await setSystem(page, "", 4);
    for (let i = 1; i <= 24; ++i) {
      if (i > 1) await button(page, "New chat").click();
      await page.getByLabel("Message", { exact: true }).fill(`Question number ${i}\nand more`);
      await page.keyboard.press("Enter");
      await page.locator(".message.assistant .facts").waitFor();
      await button(page, "Send").waitFor();
    }
    await openChat(page, "Question number 2");
    await button(page, "24 chats: open another chat").click();
    const isInView = await page.evaluate(() => {
      const list = document.querySelector(".chats-menu .chat-list").getBoundingClientRect();
      const entry = document.querySelector(".chats-menu [aria-current=true]").getBoundingClientRect();
      return entry.top >= list.top - 1 && entry.bottom <= list.bottom + 1;
    });
    await page.keyboard.press("Escape");
    const title = await page.locator(".chat-title").innerText();
    await inMenu(page, "Rename");
    await page.getByLabel("Title of the chat").fill("My <b>chat</b>");
    await page.keyboard.press("Enter");
    const renamed = await page.locator(".chat-title").innerText();
    const save = async (item) => {
      const saving = page.waitForEvent("download");
      await inMenu(page, item);
      const file = await saving;
      return { name: file.suggestedFilename(), text: readFileSync(await file.path(), "utf8") };
    };
    const markdown = await save("Export as Markdown");
    const json = await save("Export as JSON");
    await inMenu(page, "Delete chat");
    const notice = await page.locator(".undo").innerText();
    const afterDelete = await titles(page);
    await button(page, "Undo").click();
    const afterUndo = await titles(page);
    const shownAgain = await page.locator(".chat-title").innerText();
    await button(page, "Hide dashboard").click();
    const isHidden = !(await page.locator(".cache").isVisible());
    const isSideShown = await page.locator(".chat-side").isVisible();
    await page.reload();
    const staysHidden = !(await page.locator(".cache").isVisible());
    await picture(page, "folded");
    return { isInView, title, renamed, markdown, json, notice, afterDelete, afterUndo, shownAgain, isHidden, isSideShown, staysHidden, complaints: page.complaints };
  },

  // Copying, editing, regenerating and continuing.
  async revise(browser) {
    const page = await open(browser, { permissions: ["clipboard-read", "clipboard-write"] });
    await setSystem(page, kSystem, 12);
    const bodies = [];
    page.on("request", (request) => {
      if (request.url().endsWith("/v1/chat/completions")) bodies.push(request.postDataJSON());
    });
    await makeTalkative(page);
    const first = await say(page, "Who goes there?");
    await say(page, "And who are you?");
    const last = () => page.locator(".message.assistant").last();
    const ended = async () => {
      await button(page, "Send").waitFor();
      await last().locator(".facts").waitFor();
    };
    await last().getByRole("button", { name: "Copy message" }).click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    const copiedFrom = await last().locator(".markdown").innerText();
    await last().getByRole("button", { name: "Regenerate" }).click();
    await ended();
    const nAfterRegenerate = await page.locator(".message").count();
    const beforeContinue = await last().locator(".markdown").textContent();
    await last().getByRole("button", { name: "Continue" }).click();
    await ended();
    const afterContinue = await last().locator(".markdown").textContent();
    const continuedTokens = await last().locator(".facts").innerText();
    await page.locator(".message.user").first().hover();
    await page.locator(".message.user").first().getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Edit the message").fill("Who stands there?");
    await button(page, "Save and send").click();
    await ended();
    const afterEdit = await page.locator(".message.user .bubble").allInnerTexts();
    await page.locator(".undo").getByRole("button", { name: "Undo" }).click();
    const afterUndo = await page.locator(".message.user .bubble").allInnerTexts();
    return { first, copied, copiedFrom, nAfterRegenerate, beforeContinue, afterContinue, continuedTokens, afterEdit, afterUndo, bodies, complaints: page.complaints };
  },

  // A message that does not fit the context, and an answer that failed.
  async refused(browser) {
    const page = await open(browser);
    await setSystem(page, kSystem, 12);
    await say(page, "Who goes there?");
    const nBefore = await page.locator(".message").count();
    const long = "word ".repeat(60_000).trim();
    await page.getByLabel("Message", { exact: true }).fill(long);
    await page.keyboard.press("Enter");
    await page.locator(".taken-back").waitFor();
    const notice = await page.locator(".taken-back").innerText();
    const isBack = (await page.getByLabel("Message", { exact: true }).inputValue()) === long;
    const nAfter = await page.locator(".message").count();
    await picture(page, "taken-back");
    await page.getByLabel("Message", { exact: true }).fill("");
    const shorter = await say(page, "And who are you?");
    await page.route("**/v1/chat/completions", (route) => route.abort(), { times: 1 });
    await page.getByLabel("Message", { exact: true }).fill("Once more?");
    await page.keyboard.press("Enter");
    await page.locator(".message.assistant [role=alert]").waitFor();
    const error = await page.locator(".message.assistant [role=alert]").innerText();
    await button(page, "Try again").click();
    await page.locator(".message.assistant").nth(2).locator(".facts").waitFor();
    const nErrors = await page.locator(".message.assistant [role=alert]").count();
    return { notice, isBack, nBefore, nAfter, shorter, error, nErrors, complaints: page.complaints };
  },

  // Technical terms are explained in place, with a mouse and with a keyboard.
  async terms(browser) {
    const page = await open(browser);
    await setSystem(page, "You are a pirate.", 77);
    const settings = await page.locator(".settings .values").innerText();
    const explained = {};
    for (const name of ["TTFT", "ITL", "p99", "KV pages", "Prefix cache hit rate"]) {
      const term = page.locator("button.term").filter({ hasText: new RegExp(`^${name}:`) }).first();
      await term.scrollIntoViewIfNeeded();
      await term.hover();
      explained[name] = await page.getByRole("tooltip").innerText();
      await page.mouse.move(0, 0);
      await page.getByRole("tooltip").waitFor({ state: "detached" });
      await term.focus();
      await page.getByRole("tooltip").waitFor();
      const box = await page.getByRole("tooltip").boundingBox();
      if (box.x < 0 || box.x + box.width > 1440 || box.y < 0 || box.y + box.height > 960) explained[name] += " OUTSIDE";
      await page.keyboard.press("Escape");
    }
    return { settings, explained, complaints: page.complaints };
  },

  // A model that makes two tool calls at once, and continues when both results have been typed.
  async tools(browser) {
    const page = await browser.newPage();
    page.setDefaultTimeout(kPatience);
    const bodies = [];
    const events = (deltas, end) => [...deltas.map((delta) => ({ delta })), { delta: {}, finish_reason: end }]
      .map((choice) => `data: ${JSON.stringify({ choices: [choice] })}\n\n`).join("") + "data: [DONE]\n\n";
    const call = (index, name, given) => [
      { tool_calls: [{ index, id: `call-${index}`, type: "function", function: { name, arguments: "" } }] },
      ...given.map((piece) => ({ tool_calls: [{ index, function: { arguments: piece } }] })),
    ];
    await page.route("**/v1/chat/completions", (route) => {
      bodies.push(route.request().postDataJSON());
      const body = bodies.length === 1
        ? events([{ role: "assistant", content: null, reasoning_content: "Both files." },
          ...call(0, "read_file", ["{\"path\":", " \"a.txt\"}"]), ...call(1, "read_file", ["{\"path\": \"b.txt\"}"])], "tool_calls")
        : events([{ role: "assistant", content: "They are equal." }], "stop");
      return route.fulfill({ contentType: "text/event-stream", body });
    });
    await page.goto(url);
    await page.getByText("System prompt and sampling").click();
    await page.getByLabel("Tools", { exact: true }).fill("{");
    const complaint = await page.locator(".settings .error").innerText();
    await page.getByLabel("Tools", { exact: true }).fill('[{"type":"function","function":{"name":"read_file"}}]');
    await page.getByText("System prompt and sampling").click();
    const type = async (text) => {
      await page.getByLabel("Message", { exact: true }).fill(text);
      await page.keyboard.press("Enter");
    };
    await type("Are the files equal?");
    await page.locator(".message.assistant .call").nth(1).waitFor();
    const isFolded = !(await page.locator(".call pre").first().isVisible());
    const asks = await page.getByLabel("Message", { exact: true }).getAttribute("placeholder");
    await button(page, "Send").waitFor();
    await type("one line");
    const nBeforeBoth = bodies.length;
    await type("another line");
    await page.getByText("They are equal.").waitFor();
    await page.locator(".message.assistant .call summary").first().click();
    const given = await page.locator(".call pre").first().innerText();
    await picture(page, "tools");
    return { complaint, isFolded, asks, nBeforeBoth, given, results: await page.locator(".message.tool summary").allInnerTexts(), bodies };
  },

  // A router of two models, none of them loaded: opening the page loads none; the table loads, chooses and unloads.
  async models(browser) {
    const page = await open(browser, {}, "the model is not loaded");
    const bodies = [];
    page.on("request", (request) => {
      if (request.url().endsWith("/v1/chat/completions")) bodies.push(request.postDataJSON());
    });
    const [first, second] = given.split(" ");
    const row = (name) => page.locator(`.models tr[data-model="${name}"]`);
    const inState = (name, state) => row(name).locator(`[data-state=${state}]`).waitFor();
    const list = async () => (await (await fetch(`${url}v1/models`)).json()).data.map((m) => m.state);
    await page.waitForTimeout(2500); // two updates of the list
    const opened = await list();
    await button(page, `Load ${second}`).click();
    await inState(second, "loaded");
    await page.getByText("live", { exact: true }).waitFor();
    const shown = await page.locator(".top .model").innerText(); // the one that is loaded, without a choice
    await row(first).getByRole("radio").check();
    await page.getByText("the model is not loaded", { exact: true }).waitFor();
    const afterChoice = await list();
    await setSystem(page, "You are a ghost.", 16);
    const answer = await say(page, "Who goes there?");
    await inState(first, "loaded");
    await page.getByText("live", { exact: true }).waitFor();
    await page.waitForFunction(() => document.querySelector("[data-count=cached]")?.textContent !== "0");
    await picture(page, "models");
    await button(page, "Explain").first().click();
    await page.locator(".explain-form input").fill("8");
    await page.locator(".explain-form input").blur();
    const explained = page.waitForRequest((request) => request.url().includes("/kvik/explain"));
    await page.locator(".explain-form").getByRole("button", { name: "Explain" }).click();
    const explainPath = new URL((await explained).url()).search;
    await page.locator(".story").waitFor();
    await button(page, "Explain").first().click();
    const memory = await row(first).locator(".model-bar").getAttribute("aria-label");
    const chosen = await page.locator(".top .model").innerText();
    // The open page, which shows the model live, does not keep it loaded.
    await button(page, `Unload ${first}`).click();
    await inState(first, "unloaded");
    await page.getByText("the model is not loaded", { exact: true }).waitFor();
    const kept = await row(first).locator(".model-bar").getAttribute("aria-label");
    await page.reload();
    await inState(first, "unloaded");
    const isKept = await row(first).getByRole("radio").isChecked();
    await page.waitForTimeout(1500);
    return {
      opened, shown, afterChoice, answer, model: bodies[0].model, explainPath, memory, chosen, kept, isKept, atEnd: await list(),
      complaints: page.complaints, hosts: [...page.hosts],
    };
  },

  // Tests the table with a model that cannot be loaded, and with downloads.
  async pull(browser) {
    const page = await open(browser, {}, "the model is not loaded");
    const [broken, good, wrong] = given.split(" ");
    await button(page, `Load ${broken}`).click();
    const failure = await page.locator(`.models tr[data-model="${broken}"] .error`).innerText();
    const pull = async (name) => {
      await page.getByLabel(/^Download a model/).fill(name);
      await button(page, "Download").click();
      await button(page, "Download").waitFor();
      return page.locator(".pull-state").first().innerText();
    };
    const refused = await pull(wrong);
    await page.evaluate(() => {
      window.progress = new Set();
      const note = () => window.progress.add(document.querySelector("[role=progressbar]")?.getAttribute("aria-valuenow"));
      new MutationObserver(note).observe(document.querySelector(".pull"), { subtree: true, childList: true, attributes: true });
    });
    const stored = await pull(good);
    await page.getByText(/^Stored, and served after/).waitFor();
    await picture(page, "pull");
    return {
      failure, refused, stored, others: await page.getByText(/^Stored, and served after/).innerText(),
      progress: await page.evaluate(() => [...window.progress].filter(Boolean).map(Number)), complaints: page.complaints,
    };
  },

  // The table with a key.
  async user(browser) {
    const context = await browser.newContext();
    const page = await context.newPage();
    page.setDefaultTimeout(kPatience);
    await page.goto(url);
    await page.getByLabel(/API key; stored/).fill(given);
    await button(page, "Use it").click();
    await page.locator(".models tbody tr").first().waitFor();
    return {
      nButtons: await page.locator(".models button").count(), nForms: await page.locator(".pull").count(),
      note: (await page.locator(".models > p").allInnerTexts()).join("\n"),
    };
  },

  // A table with every state, from a list that is not the server's.
  async states(browser) {
    const context = await browser.newContext({ viewport: { width: 1440, height: 960 } });
    const page = await context.newPage();
    page.setDefaultTimeout(kPatience);
    await page.route("**/v1/models", (route) => route.fulfill({ contentType: "application/json", body: given }));
    await page.goto(url);
    await page.locator(".models tbody tr").first().waitFor();
    const share = (bar) => bar.evaluate((el) => [...el.children].map((part) => Math.round((100 * part.offsetWidth) / el.clientWidth)));
    const rows = [];
    for (const row of await page.locator(".models tbody tr").all()) {
      const [name, state, memory, requests, action] = await row.locator("td").allInnerTexts();
      const bars = [];
      for (const bar of await row.locator(".model-bar").all()) bars.push(await share(bar));
      rows.push({ name, state, memory: memory.trim(), requests, action, bars, isEnabled: await row.getByRole("button").isEnabled() });
    }
    await picture(page, "states");
    return { rows, legend: await page.locator(".models .legend").innerText() };
  },

  async single(browser) {
    const page = await open(browser);
    await page.locator(".models").getByText("planned memory").waitFor();
    const asked = page.waitForRequest((request) => request.url().endsWith("/v1/chat/completions"));
    await say(page, "Who goes there?");
    return {
      text: await page.locator(".models").innerText(), nControls: await page.locator(".models button, .models input").count(),
      body: (await asked).postDataJSON(), complaints: page.complaints,
    };
  },

  // The tab that shows one answer with the cache, without it and repeated, on the loaded model.
  async explain(browser) {
    const page = await open(browser);
    await button(page, "Explain").click();
    await page.getByLabel(/^A prompt, answered/).fill("ROMEO: But soft, what <b>light</b> through yonder window breaks?");
    await page.locator(".explain-form input").fill("24");
    await page.locator(".explain-form input").blur();
    await page.locator(".explain-form").getByRole("button", { name: "Explain" }).click();
    await page.locator(".story").waitFor();
    await page.waitForFunction(() => document.querySelectorAll(".story svg[role=img]").length >= 6);  // drawn when their width is known
    const seen = await page.evaluate(() => ({
      steps: [...document.querySelectorAll(".story .step h2")].map((e) => e.textContent),
      tiles: [...document.querySelectorAll(".story .tiles > div")].map((e) => e.innerText),
      pieces: [...document.querySelectorAll(".piece")].map((e) => e.textContent).join(""),
      charts: document.querySelectorAll(".story svg[role=img]").length,
      nonsense: document.querySelector(".story").innerText.match(/NaN|undefined|Infinity/g) ?? [],
    }));
    await picture(page, "explain");
    // The result remains after other tabs were opened; a longer run can be stopped.
    await button(page, "Explain").first().click();
    await page.locator(".chat").waitFor();
    const isHidden = (await page.locator(".story").count()) === 0;
    await button(page, "Explain").click();
    const isBack = await page.locator(".story").isVisible();
    await page.getByLabel(/^A prompt, answered/).fill("word ".repeat(450));
    await page.locator(".explain-form input").fill("64");
    await page.locator(".explain-form input").blur();
    await page.locator(".explain-form").getByRole("button", { name: "Explain" }).click();
    await button(page, "Stop").click();
    const error = await page.getByRole("alert").innerText();
    return { ...seen, isHidden, isBack, error, complaints: page.complaints, hosts: [...page.hosts] };
  },

  // Answers that would be harmful if they were parsed as HTML.
  async markdown(browser) {
    const page = await open(browser);
    await page.route("**/v1/chat/completions", (route) => route.fulfill({ contentType: "text/event-stream", body: streamOf(given) }));
    await page.getByLabel("Message", { exact: true }).fill("x");
    await page.keyboard.press("Enter");
    await page.locator(".message.assistant table").waitFor();
    const seen = await page.evaluate(() => {
      const root = document.querySelector(".message.assistant .markdown");
      const tags = [...root.querySelectorAll("*")].map((e) => e.tagName.toLowerCase());
      const hrefs = [...root.querySelectorAll("a")].map((e) => e.getAttribute("href"));
      const classes = [...root.querySelectorAll("[class]")].flatMap((e) => [...e.classList]);
      return { tags, hrefs, classes, text: root.textContent, wasHarmed: Boolean(window.harmed) };
    });
    return { ...seen, complaints: page.complaints };
  },

  // Answers with extreme nesting, also after a reload.
  async nested(browser) {
    const list = Array.from({ length: 1200 }, (_, i) => `${" ".repeat(2 * i)}- item ${i}`).join("\n");
    const texts = {
      quotes: ">".repeat(20_000),
      list,
      marks: "*_`[(<>#|~\\".split("").map((c) => c.repeat(20_000)).join("\n\n"),
      emphasis: "*a ".repeat(20_000) + "b* ".repeat(20_000),
      code: "```js\n" + "`${".repeat(5000),
    };
    const shown = {};
    let answer = "";
    const page = await open(browser);
    await page.route("**/v1/chat/completions", (route) => route.fulfill({ contentType: "text/event-stream", body: streamOf(answer) }));
    for (const [name, text] of Object.entries(texts)) {
      answer = `${text}\n\nTHE END`;
      const began = Date.now();
      await page.getByLabel("Message", { exact: true }).fill(name);
      await page.keyboard.press("Enter");
      await button(page, "Send").waitFor();
      const isWhole = async () => {
        const last = page.locator(".message.assistant").last();
        await last.waitFor();
        return (await last.innerText()).includes("THE END");
      };
      shown[name] = { isWhole: await isWhole(), ms: Date.now() - began };
      await page.waitForTimeout(600); // until it is stored
      await page.reload();
      shown[name].isWholeAfterReload = await isWhole();
      await button(page, "New chat").click();
    }
    return { shown, complaints: page.complaints };
  },

  async unreadable(browser) {
    const page = await open(browser);
    await page.evaluate(() => {
      const chats = [
        { id: 1, messages: [{ role: "king", text: "x" }] },
        { id: 2, messages: [{ role: "user", text: "I am still here" }, { role: "assistant", text: "So am I", end: "stop" }] },
        { id: 3, messages: [null] },
      ];
      // The page stores its chats when it is closed; that must not overwrite these.
      localStorage.setItem("kvik.chats", JSON.stringify({ chats, current: 2 }));
      Storage.prototype.setItem = Storage.prototype.removeItem = () => undefined;
    });
    await page.reload();
    const notice = () => page.locator(".notice").innerText();
    const messages = () => page.locator(".messages").innerText();
    const before = { notice: await notice(), messages: await messages() };
    await page.reload();
    const noticeAfterReload = await notice();
    const saving = page.waitForEvent("download");
    await button(page, "Download").click();
    const saved = readFileSync(await (await saving).path(), "utf8");
    await button(page, "Delete").click();
    await page.reload();
    return {
      ...before, noticeAfterReload, saved, nNoticesAfterDelete: await page.locator(".notice").count(),
      messagesAfterDelete: await messages(), complaints: page.complaints,
    };
  },

  // Serious accessibility violations in each color scheme and width, with every part of the page in use.
  async access(browser) {
    const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
    const faults = [];
    const overflow = [];
    for (const [name, options] of [
      ["light", { colorScheme: "light" }],
      ["dark", { colorScheme: "dark" }],
      ["phone", { colorScheme: "light", viewport: { width: 390, height: 844 } }],
    ]) {
      const page = await open(browser, { ...options, bypassCSP: true });
      await setSystem(page, kSystem, 60);
      await say(page, "Who goes there?");
      await say(page, "And who are you?");
      const isPhone = name === "phone";
      const look = async (part) => {
        const width = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        if (width > 0) overflow.push(`${name} ${part}: ${width} px`);
        await page.evaluate(axe);
        const { violations } = await page.evaluate(() => window.axe.run());
        for (const v of violations) {
          if (v.impact !== "serious" && v.impact !== "critical") continue;
          faults.push(`${name} ${part}: ${v.id}: ${v.nodes.map((n) => n.target.join(" ")).join(", ")}`);
        }
        await picture(page, isPhone || part === "explain" ? `${name}-${part}` : name);
      };
      if (isPhone) {
        await look("chat");
        await button(page, "Dashboard").click();
      }
      await page.waitForTimeout(2500); // until the charts have a line
      await page.locator(".map-canvas").focus();
      await page.keyboard.press("ArrowRight");
      await look("cache");
      await button(page, "Explain").click();
      await page.locator(".explain-form input").fill("16");
      await page.locator(".explain-form input").blur();
      await page.locator(".explain-form").getByRole("button", { name: "Explain" }).click();
      await page.locator(".story").waitFor();
      await look("explain");
      await page.context().close();
    }
    return { faults, overflow };
  },

  // An encoder has neither chat nor dashboard; the page says what it can do.
  async encoder(browser) {
    const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
    const faults = [];
    let page, text;
    for (const [name, options] of [["light", {}], ["dark", { colorScheme: "dark" }], ["phone", { viewport: { width: 390, height: 800 } }]]) {
      page = await open(browser, { bypassCSP: true, ...options }, "ready");
      text = await page.locator(".encoder-panel").innerText();
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run());
      faults.push(...violations.filter((v) => v.impact === "serious" || v.impact === "critical").map((v) => `${name}: ${v.id}`));
      await picture(page, `encoder-${name}`);
    }
    return { text, faults, panels: await page.locator(".chat, .map-canvas").count(), complaints: page.complaints };
  },

  // Returns the minimum time until the first paint, because other work on the machine does not count.
  async paint(browser) {
    const times = [];
    for (let i = 0; i < 5; ++i) {
      const context = await browser.newContext();
      const page = await context.newPage();
      await page.goto(url);
      times.push(await page.evaluate(() => new Promise((resolve) => {
        new PerformanceObserver((list) => resolve(list.getEntriesByName("first-contentful-paint")[0].startTime))
          .observe({ type: "paint", buffered: true });
      })));
      await context.close();
    }
    return { times };
  },
};

const browser = await chromium.launch({
  executablePath: process.env.KVIK_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
try {
  console.log(JSON.stringify(await scenarios[scenario](browser)));
} finally {
  await browser.close();
}
process.exit(0);
