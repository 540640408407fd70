// Keys of the keyboard: each page says which it takes, and `?` shows them all.

import { useEffect, useRef } from "preact/hooks";

import { Icon } from "./icons";
import { Store, useStore } from "./store";

export interface Shortcut {
  keys: string;
  does: string;
  run: () => void;
}

const active = new Store<Shortcut[][]>([]);
export const helpOpen = new Store(false);

/** Takes these keys while the component is shown. */
export function useShortcuts(shortcuts: Shortcut[]): void {
  const latest = useRef(shortcuts);
  latest.current = shortcuts;
  useEffect(() => {
    const entry = shortcuts.map((shortcut, index) => ({ ...shortcut, run: () => latest.current[index]?.run() }));
    active.value = [...active.value, entry];
    return () => { active.value = active.value.filter((other) => other !== entry); };
  }, [shortcuts.map((shortcut) => shortcut.keys + shortcut.does).join()]);
}

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || target.closest(".takes-keys") !== null);

let pending = "";
let pendingSince = 0;

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key === "Escape" && event.target instanceof HTMLElement && isTyping(event.target) && !event.target.closest(".takes-keys")) {
    event.target.blur();
    return;
  }
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  if (event.timeStamp - pendingSince > 1000) pending = "";
  const all = active.value.flat();
  for (const typed of [`${pending} ${event.key}`.trim(), event.key]) {
    const found = all.findLast((shortcut) => shortcut.keys === typed);
    if (found) {
      event.preventDefault();
      pending = "";
      found.run();
      return;
    }
  }
  pending = all.some((shortcut) => shortcut.keys.startsWith(`${event.key} `)) ? event.key : "";
  pendingSince = event.timeStamp;
});

export function ShortcutHelp() {
  const open = useStore(helpOpen);
  const groups = useStore(active);
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => { if (open) dialog.current?.showModal(); }, [open]);
  if (!open) return null;
  const close = () => { helpOpen.value = false; };
  return (
    <dialog ref={dialog} class="dialog keys-dialog" aria-labelledby="keys" onClose={close} onCancel={close}>
      <div class="dialog-head">
        <h2 id="keys">Keys</h2>
        <button type="button" class="quiet square" aria-label="Close" onClick={close}><Icon name="close" /></button>
      </div>
      <dl class="keys">
        {groups.flat().map(({ keys, does }) => (
          <div key={keys}><dt>{keys.split(" ").map((key) => <kbd key={key}>{key === "`" ? "`" : key}</kbd>)}</dt><dd>{does}</dd></div>
        ))}
      </dl>
    </dialog>
  );
}
