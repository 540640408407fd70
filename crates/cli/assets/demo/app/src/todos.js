// What can happen to a list of todos, without a browser: each function returns a new list.

export function add(todos, text) {
  const trimmed = text.trim();
  if (trimmed === "") return todos;
  const id = 1 + Math.max(0, ...todos.map((todo) => todo.id));
  return [...todos, { id, text: trimmed, done: false }];
}

export function toggle(todos, id) {
  return todos.map((todo) => (todo.id === id ? { ...todo, done: !todo.done } : todo));
}

export function remove(todos, id) {
  return todos.filter((todo) => todo.id !== id);
}

export function clearDone(todos) {
  return todos.filter((todo) => !todo.done);
}

export function shown(todos, filter) {
  if (filter === "open") return todos.filter((todo) => !todo.done);
  if (filter === "done") return todos.filter((todo) => todo.done);
  return todos;
}

export function summary(todos) {
  const open = shown(todos, "open").length;
  return open === 1 ? "1 thing left to do" : `${open} things left to do`;
}
