// What a replay shows at its moment: the desktop and the terminal.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { coloured } from "../ui/plain-text";
import type { Pictures } from "./pictures";
import type { Player } from "./player";
import type { Recording } from "./recording";

interface StageProps {
  recording: Recording;
  player: Player;
}

/** Pictures fetched before they are wanted. */
const AHEAD = 4;

export function Screen({ recording, player, pictures }: StageProps & { pictures: Pictures }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    let gone = false;
    let drawing = false;
    let shown = 0;
    // One picture at a time: a fast scrub draws as many as arrive, and always the last one.
    const draw = async () => {
      const element = canvas.current;
      const frame = recording.frameAt(player.at.value) ?? recording.frames[0];
      if (!element || !frame || drawing || frame.picture === shown) return;
      drawing = true;
      try {
        const bitmap = await pictures.bitmap(frame.picture);
        if (gone) return;
        if (element.width !== bitmap.width || element.height !== bitmap.height) [element.width, element.height] = [bitmap.width, bitmap.height];
        element.getContext("2d")?.drawImage(bitmap, 0, 0);
        shown = frame.picture;
        element.dataset["picture"] = String(shown);
        setFailed(false);
      } catch {
        if (gone) return;
        shown = frame.picture;
        setFailed(true);
      } finally {
        drawing = false;
      }
      pictures.ahead(recording.picturesAfter(player.at.value, AHEAD));
      void draw();
    };
    void draw();
    const stop = player.at.watch(() => void draw());
    return () => { gone = true; stop(); };
  }, [recording, player, pictures]);
  return (
    <div class="replay-screen">
      <canvas ref={canvas} role="img" aria-label="The desktop at this moment" />
      {failed && <p class="replay-missing">This picture can't be shown.</p>}
    </div>
  );
}

export function TerminalText({ recording, player }: StageProps) {
  const [printed, setPrinted] = useState(() => recording.printedAt(player.at.value));
  const place = useRef<HTMLPreElement>(null);
  useEffect(() => {
    const look = () => {
      const now = recording.printedAt(player.at.value);
      setPrinted((old) => (old.end === now.end ? old : now));
    };
    look();
    return player.at.watch(look);
  }, [recording, player, recording.text.length]);
  useEffect(() => { if (place.current) place.current.scrollTop = place.current.scrollHeight; }, [printed]);
  const runs = useMemo(() => coloured(printed.text), [printed]);
  return (
    <pre ref={place} class="replay-terminal" role="region" aria-label="The terminal at this moment" tabIndex={0}>
      {runs.map((run, index) => (run.style ? <span key={index} class={run.style}>{run.text}</span> : run.text))}
      {runs.length === 0 && <span class="replay-quiet">Nothing was printed yet.</span>}
    </pre>
  );
}
