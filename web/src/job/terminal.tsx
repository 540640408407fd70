// A terminal in the machine: xterm.js on the PTY, over a WebSocket that a ticket opens.

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef, useState } from "preact/hooks";

import { messageOf } from "../api/client";
import { ticket } from "../api/jobs";
import { Icon } from "../ui/icons";
import { useStore } from "../ui/store";
import { isDark, theme } from "../ui/theme";
import type { RoomProps } from "./job-page";
import { allowStyles } from "./terminal-styles";

const FRAME_BYTES = 64 * 1024;
/** Output that may wait to be drawn before the socket is left unread. */
const PENDING_BYTES = 4 * 1024 * 1024;

const colours = () => {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string) => style.getPropertyValue(name).trim();
  return { background: of("--term"), foreground: of("--term-ink"), cursor: of("--accent"), selectionBackground: isDark() ? "#5a4a3a" : "#5f5346" };
};

export function TerminalRoom({ job }: RoomProps) {
  const place = useRef<HTMLDivElement>(null);
  const shown = useRef<Terminal | null>(null);
  const [ended, setEnded] = useState<string | null>(null);
  const [turn, setTurn] = useState(0);
  useStore(theme);
  useEffect(() => { if (shown.current) shown.current.options.theme = colours(); });
  const live = job.sandbox === "live";

  useEffect(() => {
    const element = place.current;
    if (!element || !live) return;
    setEnded(null);
    allowStyles();
    const terminal = new Terminal({ cursorBlink: true, fontFamily: "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace", fontSize: 13, lineHeight: 1.25, theme: colours(), scrollback: 5000, screenReaderMode: false });
    shown.current = terminal;
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    terminal.open(element);
    fit.fit();
    terminal.focus();
    const over = new AbortController();
    let socket: WebSocket | null = null;
    open(job.job_id, terminal, over.signal).then((opened) => { socket = opened; }, (error: unknown) => setEnded(messageOf(error)));
    async function open(id: string, target: Terminal, signal: AbortSignal): Promise<WebSocket> {
      const address = new URL(await ticket(id, "pty"), location.href);
      address.protocol = address.protocol.replace("http", "ws");
      address.searchParams.set("columns", String(target.cols));
      address.searchParams.set("rows", String(target.rows));
      if (signal.aborted) throw new Error("closed");
      const made = new WebSocket(address);
      made.binaryType = "arraybuffer";
      const encoder = new TextEncoder();
      const send = (bytes: Uint8Array<ArrayBuffer>) => {
        if (made.readyState !== WebSocket.OPEN) return;
        for (let at = 0; at < bytes.length; at += FRAME_BYTES) made.send(bytes.subarray(at, at + FRAME_BYTES));
      };
      target.onData((text) => send(encoder.encode(text) as Uint8Array<ArrayBuffer>));
      target.onBinary((text) => send(Uint8Array.from(text, (letter) => letter.charCodeAt(0))));
      target.onResize(({ cols, rows }) => { if (made.readyState === WebSocket.OPEN) made.send(JSON.stringify({ resize: { columns: cols, rows } })); });
      let pending = 0;
      made.addEventListener("message", (event: MessageEvent<ArrayBuffer | string>) => {
        if (typeof event.data === "string") return setEnded(endWords(event.data));
        const data = new Uint8Array(event.data);
        // A flood beyond what can be drawn is dropped from its middle rather than kept in memory.
        if (pending > PENDING_BYTES) return;
        pending += data.length;
        target.write(data, () => { pending -= data.length; });
      });
      made.addEventListener("close", (event) => { if (!signal.aborted) setEnded((old) => old ?? (event.reason || "The connection was closed.")); });
      return made;
    }
    const observer = new ResizeObserver(() => fit.fit());
    observer.observe(element);
    return () => {
      over.abort();
      observer.disconnect();
      socket?.close();
      terminal.dispose();
      shown.current = null;
    };
  }, [job.job_id, live, turn]);

  if (!live) return <div class="empty"><p>{job.sandbox === "gone" ? "The machine is gone, and its terminal with it." : "The terminal opens when the machine is up."}</p></div>;
  return (
    <div class="terminal">
      <div ref={place} class="terminal-place takes-keys" />
      {ended !== null && (
        <div class="terminal-end" role="status"><span>{ended}</span><button type="button" onClick={() => setTurn(turn + 1)}><Icon name="repeat" />Open another</button></div>
      )}
    </div>
  );
}

function endWords(text: string): string {
  try {
    const { exit } = JSON.parse(text) as { exit?: { code?: number } };
    return `The shell ended with ${exit?.code ?? 0}.`;
  } catch {
    return "The shell ended.";
  }
}
