import { useEffect, useState } from "react";

import { load, save } from "./storage.js";
import { add, clearDone, remove, shown, summary, toggle } from "./todos.js";

const FILTERS = ["all", "open", "done"];

export default function App() {
  const [todos, setTodos] = useState(load);
  const [text, setText] = useState("");
  const [filter, setFilter] = useState("all");

  useEffect(() => {
    save(todos);
    document.title = `Todo: ${summary(todos)}`;
  }, [todos]);

  function submit(event) {
    event.preventDefault();
    setTodos(add(todos, text));
    setText("");
  }

  return (
    <main>
      <h1>Todo</h1>
      <form onSubmit={submit}>
        <input
          autoFocus
          aria-label="What is to be done?"
          placeholder="What is to be done?"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <button type="submit">Add</button>
      </form>
      <ul>
        {shown(todos, filter).map((todo) => (
          <li key={todo.id} className={todo.done ? "done" : ""}>
            <label>
              <input
                type="checkbox"
                checked={todo.done}
                onChange={() => setTodos(toggle(todos, todo.id))}
              />
              <span>{todo.text}</span>
            </label>
            <button aria-label={`Remove ${todo.text}`} onClick={() => setTodos(remove(todos, todo.id))}>
              ×
            </button>
          </li>
        ))}
      </ul>
      <footer>
        <span id="summary">{summary(todos)}</span>
        <nav>
          {FILTERS.map((name) => (
            <button key={name} aria-pressed={filter === name} onClick={() => setFilter(name)}>
              {name}
            </button>
          ))}
        </nav>
        <button onClick={() => setTodos(clearDone(todos))}>clear done</button>
      </footer>
    </main>
  );
}
