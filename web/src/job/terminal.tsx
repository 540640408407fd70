// A terminal in the machine: xterm.js on the PTY, over a WebSocket that a ticket opens.

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { useEffect, useRef, useState } from "preact/hooks";

import { Icon } from "../ui/icons";
import { useStore } from "../ui/store";
import { isDark, colours as shownColours } from "../ui/theme";
import type { RoomProps } from "./job-page";
import { ShellLink } from "./shell-link";
import { allowStyles } from "./terminal-styles";

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
  useStore(shownColours);
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
    const shell = new ShellLink(job.job_id, terminal, setEnded);
    shell.connect();
    const observer = new ResizeObserver(() => fit.fit());
    observer.observe(element);
    return () => {
      observer.disconnect();
      shell.close();
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
