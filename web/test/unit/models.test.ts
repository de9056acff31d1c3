import assert from "node:assert/strict";
import { test } from "node:test";
import { exampleOf, readEncoder, routesOf } from "../../src/models/encoder";
import { splitLines } from "../../src/models/json_lines";
import { type Model, notServed, readModelList, selectModel } from "../../src/models/model_list";
import { errorOf, sentenceOf } from "../../src/server_error";

const entry = (id: string, more: object = {}) => ({ id, display_name: id, state: "unloaded", memory_bytes: 0, kept_cache_bytes: 0, ...more });

test("the models of a router are read with their states and further names", () => {
  const list = readModelList({
    object: "list", can_load: true, can_pull: false,
    data: [
      entry("a", { state: "loading", progress: 0.25, memory_bytes: 400, requests: 2, crashes: 3 }),
      { ...entry("b"), id: "gpt-4", display_name: "a" },
      entry("b", { state: "failed", error: "b could not be loaded", kept_cache_bytes: 7 }),
    ],
  });
  assert.deepEqual([list.isRouter, list.canLoad, list.canPull], [true, true, false]);
  assert.deepEqual(list.models[0], {
    name: "a", aliases: ["gpt-4"], state: "loading", progress: 0.25, memoryBytes: 400, keptBytes: 0, requests: 2, crashes: 3,
    error: "",
  });
  assert.deepEqual([list.models[1]!.error, list.models[1]!.keptBytes, list.models.length], ["b could not be loaded", 7, 2]);
});

test("a server of one model has no states, and its adapters are no models", () => {
  const card = { id: "demo", display_name: "demo", max_model_len: 1024 };
  const list = readModelList({ data: [card, { ...card, id: "gpt-4" }, { ...card, id: "clerk", display_name: "clerk", parent: "demo" }] });
  assert.equal(list.isRouter, false);
  assert.deepEqual(list.models.map((m) => [m.name, m.aliases, m.state]), [["demo", ["gpt-4"], null]]);
  assert.equal(list.canLoad || list.canPull, false);
});

test("an answer that is no list of models has none", () => {
  for (const answer of [null, 3, "x", [], {}, { data: 3 }, { data: [null, 3, {}, { id: 4 }] }]) assert.deepEqual(readModelList(answer).models, []);
  const { models } = readModelList({ data: [entry("a", { state: "asleep", progress: "soon", memory_bytes: null })] });
  assert.deepEqual([models[0]!.state, models[0]!.progress, models[0]!.memoryBytes], [null, 0, 0]);
});

test("the chosen model is selected, otherwise one that is loaded, which stays while it is", () => {
  const models = (...states: string[]): Model[] => readModelList({ data: states.map((state, i) => entry("abc"[i]!, { state })) }).models;
  assert.equal(selectModel([], "a", "a"), "");
  assert.equal(selectModel(models("unloaded", "unloaded"), "", ""), "a");
  assert.equal(selectModel(models("unloaded", "loaded"), "", "a"), "b");
  assert.equal(selectModel(models("loaded", "loaded"), "", "b"), "b");
  assert.equal(selectModel(models("loaded", "loading"), "", "b"), "b");
  assert.equal(selectModel(models("loaded", "unloaded"), "", "b"), "a");
  assert.equal(selectModel(models("unloaded", "unloaded"), "", "b"), "b");
  assert.equal(selectModel(models("loaded", "failed"), "b", "a"), "b");
  assert.equal(selectModel(models("loaded", "unloaded"), "gone", "gone"), "a");
});

test("lines are read when they are complete", () => {
  assert.deepEqual(splitLines('{"a":1}\n\n{"b"'), { lines: ['{"a":1}'], rest: '{"b"' });
  assert.deepEqual(splitLines('{"b":2}\n'), { lines: ['{"b":2}'], rest: "" });
});

test("errors are the server's sentence, in the shapes of both APIs", async () => {
  assert.equal(sentenceOf({ error: "no such model" }), "no such model");
  assert.equal(sentenceOf({ error: { message: "not now" } }), "not now");
  for (const answer of [null, {}, { error: null }, { error: { message: 3 } }]) assert.equal(sentenceOf(answer), null);
  assert.equal((await errorOf(new Response("<html>", { status: 502 }))).message, "the server answered 502");
  assert.equal((await errorOf(new Response('{"error": "full disk"}', { status: 500 }))).message, "full disk");
});

test("an encoder's properties, routes and example come from its properties", () => {
  const details = (capabilities: string[]) => ({ capabilities, n_embd: 384, default_generation_settings: { n_ctx: 512 } });
  const embedder = readEncoder("it's", details(["embedding"]))!;
  assert.deepEqual(embedder, { name: "it's", maxTokens: 512, dimensions: 384, ranks: false });
  assert.deepEqual(routesOf(embedder).map(([route]) => route), ["POST /v1/embeddings", "POST /api/embed"]);
  assert.match(exampleOf(embedder, "http://h:1"), /^curl http:\/\/h:1\/v1\/embeddings .*"model":"it'\\''s"/);
  const ranker = readEncoder("r", details(["embedding", "rerank"]))!;
  assert.deepEqual(routesOf(ranker).map(([route]) => route), ["POST /v1/rerank", "POST /v1/score"]);
  assert.match(exampleOf(ranker, ""), /documents/);
  for (const answer of [null, {}, { capabilities: 3 }, details(["completion"])]) assert.equal(readEncoder("x", answer), null);
});

test("stored models are listed if they are not served", () => {
  const { models } = readModelList({ data: [entry("demo"), entry("a:q4")] });
  assert.deepEqual(notServed(["demo:latest", "a:q4", "b:latest"], models), ["b:latest"]);
});
