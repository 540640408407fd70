// The replay of a job: its desktop and its terminal at any moment, with the timeline beside it. A moment is an event, so a link to
// an event opens it.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { messageOf, request } from "../api/client";
import { isTerminal } from "../api/types";
import { moment as shownMoment } from "../job/moment";
import type { RoomProps } from "../job/job-page";
import { count } from "../ui/format";
import { Icon } from "../ui/icons";
import { useShortcuts } from "../ui/keys";
import { notify, notifyFailure } from "../ui/notices";
import { place, setQuery } from "../ui/router";
import { useStore } from "../ui/store";
import { Pictures } from "./pictures";
import { Player } from "./player";
import { Recording } from "./recording";
import "./replay.css";
import { Screen, TerminalText } from "./stage";
import { span, Track, wallClock } from "./track";

const SPEEDS = [1, 4, 16, 60];
/** How often the timeline follows a moving moment. */
const FOLLOW_MS = 120;

export function ReplayRoom({ job, window: window_ }: RoomProps) {
  const [version, turn] = useState(0);
  const running = useRef(true);
  running.current = !isTerminal(job.state);
  const { recording, player, pictures } = useMemo(() => {
    const made = new Recording(job.job_id, () => turn((count) => count + 1));
    return { recording: made, player: new Player(made), pictures: new Pictures(job.job_id) };
  }, [job.job_id]);
  const { query } = useStore(place);
  const asked = Number(query.get("event")) || null;

  useEffect(() => {
    void recording.load(() => running.current);
    return () => {
      recording.close();
      player.pause();
      pictures.close();
      shownMoment.value = null;
    };
  }, [recording]);

  // The address names the moment: where a link leads, and where another row of the timeline was chosen.
  const chosen = useRef<number | null>(null);
  const ready = recording.marks.length > 0;
  useEffect(() => {
    if (!ready || (asked !== null && asked === chosen.current)) return;
    // A link to an event before what is known reads back until there.
    if (asked !== null && asked <= recording.unknown && recording.complete) return void recording.earlier(asked);
    const at = asked === null ? null : recording.timeOf(asked);
    if (at !== null) player.seek(at);
    else if (player.at.value === 0) player.seek(recording.frames[0]?.at ?? recording.begin);
  }, [asked, ready, recording.complete, recording.unknown]);

  // The timeline follows, a few times in a second.
  useEffect(() => {
    let timer = 0;
    let last = 0;
    const follow = () => {
      timer = 0;
      last = performance.now();
      const event = recording.eventAt(player.at.value);
      if (event === null || event === shownMoment.value) return;
      void window_.reveal(event);
      shownMoment.value = event;
    };
    const stop = player.at.watch(() => { timer ||= setTimeout(follow, Math.max(0, FOLLOW_MS - (performance.now() - last))); });
    return () => { stop(); clearTimeout(timer); };
  }, [recording, player, window_]);

  const choose = () => {
    const event = recording.eventAt(player.at.value);
    chosen.current = event;
    setQuery({ event: event === null ? null : String(event) });
  };
  // Wherever it stops, by hand or at its end, the address names the moment.
  useEffect(() => player.playing.watch(() => { if (!player.playing.value) choose(); }), [player]);
  const toggle = () => player.toggle();
  const step = (by: 1 | -1) => { player.pause(); player.seek(recording.step(player.at.value, by)); choose(); };
  useShortcuts([
    { keys: "k", does: "Replay: play or pause", run: toggle },
    { keys: ".", does: "Replay: next moment", run: () => step(1) },
    { keys: ",", does: "Replay: previous moment", run: () => step(-1) },
  ]);

  if (recording.failure !== null && !ready) return <p class="banner banner-bad" role="alert"><Icon name="warn" />{messageOf(recording.failure)}</p>;
  if (!ready && !recording.complete) return <div class="skeleton-rows" role="status" aria-busy="true" aria-label="Loading"><i /><i /><i /></div>;
  if (!ready) return <div class="empty"><p>Nothing has happened yet.</p></div>;
  const desktop = recording.frames.length > 0;
  const terminal = recording.text !== "";
  return (
    <div class="replay" data-version={version} data-complete={recording.complete}>
      <div class={`replay-stage${desktop && terminal ? " replay-both" : ""}`}>
        {desktop && <Screen recording={recording} player={player} pictures={pictures} />}
        {(terminal || !desktop) && <TerminalText recording={recording} player={player} />}
      </div>
      <Earlier recording={recording} />
      <Track recording={recording} version={version} player={player} onChosen={choose} />
      <Controls job={job.job_id} recording={recording} player={player} onToggle={toggle} onStep={step} onChosen={choose} terminal={terminal} />
    </div>
  );
}

/** What a long job's replay leaves out, and the way to it. */
function Earlier({ recording }: { recording: Recording }) {
  const { unknown, complete, readsBack, failure } = recording;
  if (!complete || unknown === 0) return null;
  return (
    <p class="replay-earlier">
      {failure !== null ? <span class="bad-text">{messageOf(failure)}</span> : <span class="faint">{recording.frames.length > 0 ? "The desktop is here from its beginning, output" : "The replay begins"} after event {count(unknown)}.</span>}
      <button type="button" class="quiet" disabled={readsBack} onClick={() => void recording.earlier()}><Icon name="back" />{readsBack ? "Reading …" : "Read earlier events"}</button>
    </p>
  );
}

interface ControlsProps {
  job: string;
  recording: Recording;
  player: Player;
  terminal: boolean;
  onToggle: () => void;
  onStep: (by: 1 | -1) => void;
  onChosen: () => void;
}

function Controls({ job, recording, player, terminal, onToggle, onStep, onChosen }: ControlsProps) {
  const playing = useStore(player.playing);
  const speed = useStore(player.speed);
  const skips = useStore(player.skips);
  const link = async () => {
    onChosen();
    try {
      await navigator.clipboard.writeText(location.href);
      notify("The link to this moment was copied.");
    } catch {
      notify("The address of this page is the link to this moment.");
    }
  };
  const cast = () => request(`/jobs/${job}/terminal.cast`).then(async (answer) => {
    const anchor = document.createElement("a");
    anchor.href = URL.createObjectURL(await answer.blob());
    anchor.download = `${job}.cast`;
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
  }, notifyFailure);
  return (
    <div class="replay-controls">
      <button type="button" class="quiet square" aria-label="Previous moment" title="Previous moment (,)" onClick={() => onStep(-1)}><Icon name="back" /></button>
      <button type="button" class="primary square" aria-label={playing ? "Pause" : "Play"} title={playing ? "Pause (k)" : "Play (k)"} onClick={onToggle}><Icon name={playing ? "pause" : "play"} /></button>
      <button type="button" class="quiet square" aria-label="Next moment" title="Next moment (.)" onClick={() => onStep(1)}><Icon name="chevron" /></button>
      <MomentWords recording={recording} player={player} />
      <span class="space" />
      <label class="check"><input type="checkbox" checked={skips} onChange={(event) => { player.skips.value = event.currentTarget.checked; }} /><span>Skip pauses</span></label>
      <select aria-label="Speed" value={speed} onChange={(event) => { player.speed.value = Number(event.currentTarget.value); }}>
        {SPEEDS.map((times) => <option key={times} value={times}>{times}×</option>)}
      </select>
      <button type="button" class="quiet square" aria-label="Copy a link to this moment" title="Copy a link to this moment" onClick={() => void link()}><Icon name="link" /></button>
      {terminal && <button type="button" class="quiet square" aria-label="Download the terminal as an asciicast" title="Download what the job printed as an asciicast. Terminals that people opened are not recorded." onClick={() => void cast()}><Icon name="download" /></button>}
    </div>
  );
}

function MomentWords({ recording, player }: { recording: Recording; player: Player }) {
  const words = useRef<HTMLSpanElement>(null);
  const wall = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    const show = () => {
      if (words.current) words.current.textContent = `${span(player.at.value - recording.begin)} / ${span(recording.end - recording.begin)}`;
      if (wall.current && player.at.value > 0) wall.current.textContent = wallClock(player.at.value);
    };
    show();
    return player.at.watch(show);
  });
  return <span class="replay-time"><span ref={words} /> <span ref={wall} class="faint wide-only" /></span>;
}
