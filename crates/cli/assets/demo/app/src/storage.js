// The list outlives the page. Storage that is full, forbidden or damaged costs only that.

const KEY = "todos";

export function load() {
  try {
    const todos = JSON.parse(localStorage.getItem(KEY));
    return Array.isArray(todos) ? todos : [];
  } catch {
    return [];
  }
}

export function save(todos) {
  try {
    localStorage.setItem(KEY, JSON.stringify(todos));
  } catch {
    // Nothing is lost but the memory of it.
  }
}
