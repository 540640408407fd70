import assert from "node:assert/strict";
import { test } from "node:test";

import { add, clearDone, remove, shown, summary, toggle } from "../src/todos.js";

const two = add(add([], "  water the plants "), "write a test");

test("a todo is added with its text trimmed and an id of its own", () => {
  assert.deepEqual(two, [
    { id: 1, text: "water the plants", done: false },
    { id: 2, text: "write a test", done: false },
  ]);
  assert.equal(add(two, "   "), two);
});

test("a removed todo leaves the others their ids", () => {
  const left = add(remove(two, 1), "third");
  assert.deepEqual(left.map((todo) => todo.id), [2, 3]);
});

test("filters and the summary follow what is done", () => {
  const list = toggle(two, 2);
  assert.deepEqual(shown(list, "open").map((todo) => todo.id), [1]);
  assert.deepEqual(shown(list, "done").map((todo) => todo.id), [2]);
  assert.equal(summary(list), "1 thing left to do");
  assert.equal(summary(two), "2 things left to do");
  assert.deepEqual(clearDone(list).map((todo) => todo.id), [1]);
});
