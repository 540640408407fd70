// A search through everything that the job has seen.

import { useState } from "preact/hooks";

import { encodePath, getJson, messageOf } from "../api/client";
import type { PassageSourceView, PassageView, RecallView } from "../api/types";
import { moment, plural } from "../ui/format";
import { Icon } from "../ui/icons";
import { plain } from "../ui/plain-text";
import { jobAddress } from "../ui/router";
import type { RoomProps } from "./job-page";

/** What a passage is, by where it came from. Only a file has a path; the others have the name of a tool or a language there. */
const ORIGINS: Record<string, (name: string) => string> = {
  person: () => "Said by a person",
  model: (name) => `Words of the model: ${name}`,
  call: (name) => `Call of ${name}`,
  result: (name) => (name === "result" ? "Result of a call" : `Result of ${name}`),
  cell: (name) => `Cell in ${name}`,
  note: () => "Note",
};

/** The path of a file below the workspace, which is what the room of files shows; null for any other place. */
function filePath({ origin, path }: PassageSourceView): string | null {
  if (origin !== "file") return null;
  const below = path.replace(/^\/workspace\//, "");
  return below && !below.startsWith("/") ? below : null;
}

function Source({ job, source, passage }: { job: string; source: PassageSourceView; passage: PassageView }) {
  const path = filePath(source);
  const [from, to] = source.lines;
  const words = source.origin === "file" ? source.path : (ORIGINS[source.origin]?.(source.path) ?? `${source.origin} ${source.path}`);
  return (
    <p class="recall-source">
      {path
        ? <a href={`${jobAddress(job, `files/${encodePath(path)}`)}?line=${from}`}><bdi class="mono">{plain(path)}</bdi></a>
        : <strong><bdi>{plain(words)}</bdi></strong>}
      {passage.name && <bdi class="faint">{plain(passage.name)}</bdi>}
      <span class="faint">{from === to ? `line ${from}` : `lines ${from} to ${to}`}</span>
      {typeof source.entry === "number" && <span class="faint">entry {source.entry} of the journal</span>}
      {passage.seen > 1 && <span class="faint">seen {passage.seen} times</span>}
      <time class="faint" dateTime={source.at}>{moment(source.at)}</time>
    </p>
  );
}

/** What the answer says about itself, where it is not the usual. */
function Reservations({ found }: { found: RecallView }) {
  const words = [
    found.unverified > 0 ? `${plural(found.unverified, "passage")} left out, because the stored text is lost or was changed.` : "",
    found.rebuilt > 0 ? "A damaged part of the index was made again for this answer." : "",
  ].filter(Boolean);
  return words.length > 0 ? <p class="banner banner-wait" role="note"><Icon name="info" />{words.join(" ")}</p> : null;
}

export function Recall({ job }: RoomProps) {
  const [words, setWords] = useState("");
  const [found, setFound] = useState<RecallView | null>(null);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);
  const ask = async () => {
    setBusy(true);
    try {
      setFound(await getJson<RecallView>(`/jobs/${job.job_id}/recall?q=${encodeURIComponent(words)}&k=20`));
      setFailure(null);
    } catch (error) {
      setFailure(messageOf(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <div class="overview">
      <form class="recall-ask" onSubmit={(event) => { event.preventDefault(); void ask(); }}>
        <input type="search" aria-label="What to recall" placeholder="What did the job see about …" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
        <button type="submit" class="primary" disabled={busy || !words.trim()}><Icon name="search" />Recall</button>
      </form>
      {failure && <p class="banner banner-bad" role="alert"><Icon name="warn" />{failure}</p>}
      {!found && !failure && (
        <div class="empty"><p>Everything that the job read, wrote, ran and said, found by words and by meaning. Each passage names its place and is checked against what is stored.</p></div>
      )}
      {found && <Reservations found={found} />}
      {found?.passages.length === 0 && <div class="empty"><p>The job saw nothing like it.</p></div>}
      {found?.passages.map((passage) => (
        <section key={`${passage.digest}-${passage.source.start}`} class="card recall-passage">
          <Source job={job.job_id} source={passage.source} passage={passage} />
          <pre class="call-detail" tabIndex={0}>{plain(passage.text)}</pre>
        </section>
      ))}
    </div>
  );
}
