// What is around every page: the bar, sign-in, notices, keys.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { key, request, setKey, whenLocked } from "../api/client";
import { Icon, Logo } from "./icons";
import { helpOpen, ShortcutHelp, useShortcuts } from "./keys";
import { Notices, QuestionDialog } from "./notices";
import { go, place } from "./router";
import { Store, useStore } from "./store";
import { colours, isDark, toggleTheme } from "./theme";

const locked = new Store(false);
whenLocked(() => { locked.value = true; });

export function Shell({ children }: { children: ComponentChildren }) {
  useStore(colours);
  const { path } = useStore(place);
  const current = (address: string) => (address === "/" ? path === "/" || path.startsWith("/console/jobs") : path.startsWith(address)) ? "page" : undefined;
  useShortcuts([
    { keys: "?", does: "Show these keys", run: () => { helpOpen.value = true; } },
    { keys: "g y", does: "Go to the yard", run: () => go("/") },
    { keys: "g s", does: "Go to the system", run: () => go("/console/system") },
    { keys: "g d", does: "Go to the API", run: () => location.assign("/docs") },
  ]);
  return (
    <>
      <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.querySelector<HTMLElement>("main")?.setAttribute("tabindex", "-1"); document.querySelector<HTMLElement>("main")?.focus(); }}>Skip to the content</a>
      <header class="bar">
        <a class="brand" href="/"><Logo /><span>Sandyard</span></a>
        <nav aria-label="Pages">
          <a href="/" aria-current={current("/")}>Yard</a>
          <a href="/console/system" aria-current={current("/console/system")}>System</a>
          <a href="/docs" target="_self">API</a>
        </nav>
        <span class="space" />
        {key() && <button type="button" class="quiet square" aria-label="Sign out" title="Sign out: forget the key of this tab" onClick={() => { setKey(""); location.reload(); }}><Icon name="key" /></button>}
        <button type="button" class="quiet square wide-only" aria-label="Keys" title="Keys (?)" onClick={() => { helpOpen.value = true; }}><kbd>?</kbd></button>
        <button type="button" class="quiet square" aria-label={isDark() ? "Light colours" : "Dark colours"} title={isDark() ? "Light colours" : "Dark colours"} onClick={toggleTheme}><Icon name={isDark() ? "sun" : "moon"} /></button>
      </header>
      <div id="content" class="content">{children}</div>
      <Notices />
      <QuestionDialog />
      <ShortcutHelp />
      <SignIn />
    </>
  );
}

function SignIn() {
  const open = useStore(locked);
  const [text, setText] = useState("");
  const [failure, setFailure] = useState<string | null>(null);
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => { if (open && !dialog.current?.open) dialog.current?.showModal(); }, [open]);
  if (!open) return null;
  const enter = async (event: Event) => {
    event.preventDefault();
    setKey(text);
    try {
      await request("/jobs?limit=1");
      dialog.current?.close();
      locked.value = false;
      setText("");
      setFailure(null);
      dispatchEvent(new Event("sandyard-key"));
    } catch {
      setKey("");
      setFailure("The server does not take this key.");
    }
  };
  return (
    <dialog ref={dialog} class="dialog sign-in" aria-labelledby="sign-in-title" onCancel={(event) => event.preventDefault()}>
      <Logo />
      <h2 id="sign-in-title">Sign in</h2>
      <p class="faint">The key was printed at the server's first start. It stays in this tab alone.</p>
      <form onSubmit={(event) => void enter(event)}>
        <label class="field"><span>Key</span>
          <input id="key" type="password" autocomplete="off" spellcheck={false} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        {failure && <p class="bad-text" role="alert">{failure}</p>}
        <button type="submit" class="primary" disabled={!text.trim()}>Sign in</button>
      </form>
    </dialog>
  );
}
