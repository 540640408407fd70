// A value that components watch. The whole of the console's shared state is a handful of these.

import { useLayoutEffect, useState } from "preact/hooks";

export class Store<T> {
  readonly #watchers = new Set<() => void>();
  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }

  set value(next: T) {
    if (Object.is(next, this.current)) return;
    this.current = next;
    this.touch();
  }

  /** Tells the watchers that the value has changed within. */
  touch(): void {
    for (const watcher of [...this.#watchers]) watcher();
  }

  watch(watcher: () => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }
}

export function useStore<T>(store: Store<T>): T {
  const [, turn] = useState(0);
  const rendered = store.value;
  // Before the first paint: an answer may come sooner than an effect after it, and a change that nobody watched would be lost.
  useLayoutEffect(() => {
    const again = () => turn((count) => count + 1);
    if (!Object.is(store.value, rendered)) again();
    return store.watch(again);
  }, [store]);
  return rendered;
}
