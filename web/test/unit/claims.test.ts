import assert from "node:assert/strict";
import { test } from "node:test";
import { fewerBytesVerdict, growth, isFlat, powerOf } from "../../src/explain/claims";
import type { Fit, Run } from "../../src/explain/report";

const fit = (r_squared: number): Fit => ({ exponent: 0.4, exponent_error: 0.1, factor: 1, r_squared, from: 10, to: 60, points: 50 });
const run = (ms: number[]) => ({ ms }) as Run;

test("an exponent needs an R² of 0.8", () => {
  assert.equal(powerOf(fit(0.79)), null);
  assert.equal(powerOf(null), null);
  assert.equal(powerOf(fit(0.8))?.exponent, 0.4);
});

test("growth compares the quarters of an answer without its first token", () => {
  assert.deepEqual(growth(run([99, 1, 1, 1, 1, 2, 2, 2, 2])), { first: 1, last: 2 });
  assert.ok(isFlat(run([99, 1, 1, 1, 1.1, 1, 1, 1.1, 1])));
  assert.ok(!isFlat(run([99, 1, 1, 1, 1, 2, 2, 2, 2])));
});

test("fewer bytes are said to be less time only where the bars show it", () => {
  const cost = (name: string, bytes: number, ms: number) => ({ name, bytes, ms });
  assert.equal(fewerBytesVerdict([cost("f32", 400, 4), cost("bf16", 200, 2), cost("int8", 100, 1)]).kind, "confirmed");
  const contrary = fewerBytesVerdict([cost("f32", 400, 4), cost("int8", 100, 5), cost("int4", 50, 6)]);
  assert.equal(contrary.kind, "contradicted");
  assert.deepEqual([contrary.against?.fewer.name, contrary.against?.more.name], ["int4", "f32"]);
  const mixed = fewerBytesVerdict([cost("f32", 400, 4), cost("int8", 100, 2), cost("int4", 50, 2.6)]);
  assert.equal(mixed.kind, "mixed");
  assert.deepEqual([mixed.against?.fewer.name, mixed.against?.more.name], ["int4", "int8"]);
  assert.equal(fewerBytesVerdict([cost("f32", 400, 4), cost("int8", 100, 4.1)]).kind, "mixed");
});
