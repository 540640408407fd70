// Files of a job: a tree, and the file that is chosen: highlighted, or open for a change.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { encodePath, messageOf, request } from "../api/client";
import { bytes } from "../ui/format";
import { Icon } from "../ui/icons";
import { notify, notifyFailure } from "../ui/notices";
import { plain } from "../ui/plain-text";
import { go, jobAddress, place } from "../ui/router";
import { useStore } from "../ui/store";
import { VirtualList } from "../ui/virtual-list";
import type { RoomProps } from "../job/job-page";
import { tokenLines } from "./highlight";
import { cellsOf, NotebookView } from "./notebook";
import type { Entry, FileSource } from "./source";
import { isNotebook, NOTEBOOK_BYTES, SHOWN_BYTES, sourceOf, textOf } from "./source";

const IMAGE = /\.(png|jpe?g|gif|webp)$/i;

export function Files({ job, rest: path }: RoomProps) {
  const source = useMemo(() => sourceOf(job), [job.job_id, job.sandbox === "live", Boolean(job.download_url)]);
  const [version, setVersion] = useState(0);
  const picker = useRef<HTMLInputElement>(null);
  if (!source) return <div class="empty"><p>There are no files yet. They appear when the machine is up.</p></div>;
  const choose = (next: string) => go(jobAddress(job.job_id, next ? `files/${encodePath(next)}` : "files"));
  const upload = async (files: Iterable<File>) => {
    try {
      for (const file of files) await request(`/jobs/${job.job_id}/files/${encodePath(file.name)}`, { method: "PUT", body: file });
      setVersion(version + 1);
      notify("Uploaded.");
    } catch (error) {
      notifyFailure(error);
    }
  };
  return (
    <div class={`files${path ? " has-file" : ""}`} onDragOver={(event) => event.preventDefault()} onDrop={(event) => { event.preventDefault(); if (source.live) void upload(event.dataTransfer?.files ?? []); }}>
      <div class="tree-side">
        <div class="tree-head">
          <span class="faint">{source.live ? "Live workspace" : "Result"}</span>
          <span class="space" />
          {source.live && (
            <>
              <input ref={picker} type="file" multiple hidden onChange={(event) => { void upload(event.currentTarget.files ?? []); event.currentTarget.value = ""; }} />
              <button type="button" class="quiet square" aria-label="Upload files" title="Upload files" onClick={() => picker.current?.click()}><Icon name="upload" /></button>
              <button type="button" class="quiet square" aria-label="Read again" title="Read again" onClick={() => setVersion(version + 1)}><Icon name="repeat" /></button>
            </>
          )}
        </div>
        <Folder key={version} source={source} folder="" chosen={path} onChoose={choose} depth={0} />
      </div>
      {path && <FileView key={path} job={job.job_id} source={source} path={path} onClose={() => choose("")} onChanged={() => setVersion(version + 1)} />}
    </div>
  );
}

interface FolderProps {
  source: FileSource;
  folder: string;
  chosen: string;
  onChoose: (path: string) => void;
  depth: number;
}

const SHOWN_ENTRIES = 500;

function Folder({ source, folder, chosen, onChoose, depth }: FolderProps) {
  const [entries, setEntries] = useState<Entry[] | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    source.list(folder).then(setEntries, (error: unknown) => setFailure(messageOf(error)));
  }, [source, folder]);
  const isOpen = (entry: Entry) => open.has(entry.path) || (chosen.startsWith(`${entry.path}/`) && !open.has(`-${entry.path}`));
  const toggle = (entry: Entry) => setOpen((old) => {
    const next = new Set(old);
    if (isOpen(entry)) { next.delete(entry.path); next.add(`-${entry.path}`); } else { next.add(entry.path); next.delete(`-${entry.path}`); }
    return next;
  });
  if (failure) return <p class="bad-text tree-note">{failure}</p>;
  if (!entries) return <p class="faint tree-note" aria-busy="true">…</p>;
  if (entries.length === 0) return <p class="faint tree-note">empty</p>;
  return (
    <ul class="tree" aria-label={depth === 0 ? "Files" : folder}>
      {entries.slice(0, SHOWN_ENTRIES).map((entry) => (
        <li key={entry.path}>
          <button type="button" class={`tree-entry${entry.path === chosen ? " chosen" : ""}`} style={{ paddingInlineStart: `${8 + depth * 14}px` }} aria-expanded={entry.folder ? isOpen(entry) : undefined} aria-current={entry.path === chosen ? "true" : undefined}
            onClick={() => (entry.folder ? toggle(entry) : onChoose(entry.path))}>
            <Icon name={entry.folder ? (isOpen(entry) ? "down" : "chevron") : entry.link ? "link" : "file"} />
            <bdi>{plain(entry.name)}</bdi>
            {!entry.folder && <span class="faint tree-size">{bytes(entry.size)}</span>}
          </button>
          {entry.folder && isOpen(entry) && <Folder source={source} folder={entry.path} chosen={chosen} onChoose={onChoose} depth={depth + 1} />}
        </li>
      ))}
      {entries.length > SHOWN_ENTRIES && <li class="faint tree-note">and {entries.length - SHOWN_ENTRIES} more</li>}
    </ul>
  );
}

interface FileViewProps {
  job: string;
  source: FileSource;
  path: string;
  onClose: () => void;
  onChanged: () => void;
}

function FileView({ job, source, path, onClose, onChanged }: FileViewProps) {
  const [content, setContent] = useState<{ bytes: Uint8Array<ArrayBuffer>; size: number } | null>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const [edited, setEdited] = useState<string | null>(null);
  const load = () => source.read(path).then((read) => { setContent(read); setFailure(null); }, (error: unknown) => setFailure(messageOf(error)));
  useEffect(() => void load(), [source, path]);
  const text = useMemo(() => (content ? textOf(content.bytes) : null), [content]);
  const whole = content !== null && content.size <= (isNotebook(path) ? NOTEBOOK_BYTES : SHOWN_BYTES);
  const notebook = useMemo(() => (isNotebook(path) && whole && text !== null ? cellsOf(text) : null), [text, whole]);
  const [asText, setAsText] = useState(false);
  const save = async () => {
    try {
      await request(`/jobs/${job}/files/${encodePath(path)}`, { method: "PUT", body: edited ?? "" });
      setEdited(null);
      notify("Saved.");
      await load();
      onChanged();
    } catch (error) {
      notifyFailure(error);
    }
  };
  const download = async () => {
    try {
      const blob = source.live ? await (await request(`/jobs/${job}/files/${encodePath(path)}`)).blob() : new Blob([content?.bytes ?? ""]);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = path.split("/").at(-1) ?? "file";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    } catch (error) {
      notifyFailure(error);
    }
  };
  return (
    <section class="file" aria-label="File">
      <div class="file-head">
        <button type="button" class="quiet square narrow-only" aria-label="Back to the tree" onClick={onClose}><Icon name="close" /></button>
        <bdi class="mono file-path">{plain(path)}</bdi>
        {content && <span class="faint">{bytes(content.size)}</span>}
        <span class="space" />
        {notebook && edited === null && (
          <div class="segments" role="group" aria-label="View">
            <button type="button" aria-pressed={!asText} onClick={() => setAsText(false)}>Notebook</button>
            <button type="button" aria-pressed={asText} onClick={() => setAsText(true)}>Text</button>
          </div>
        )}
        {edited !== null && <button type="button" class="quiet" onClick={() => setEdited(null)}>Discard</button>}
        {edited !== null && <button type="button" class="primary" onClick={() => void save()}>Save</button>}
        {edited === null && source.live && whole && text !== null && <button type="button" onClick={() => setEdited(text)}>Edit</button>}
        {content && (source.live || whole) && <button type="button" class="square" aria-label="Download the file" title="Download the file" onClick={() => void download()}><Icon name="download" /></button>}
      </div>
      {failure && <p class="banner banner-bad" role="alert"><Icon name="warn" />{failure}</p>}
      {!content && !failure && <div class="skeleton-rows" role="status" aria-busy="true" aria-label="Loading"><i /><i /></div>}
      {edited !== null && (
        <textarea class="editor mono" aria-label={`Content of ${path}`} spellcheck={false} value={edited} onInput={(event) => setEdited(event.currentTarget.value)}
          onKeyDown={(event) => { if (event.key === "s" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); void save(); } }} />
      )}
      {content && edited === null && (IMAGE.test(path) && whole ? <ImageView bytes={content.bytes} path={path} /> : text === null ? <p class="empty">These bytes are no text.</p> : notebook && !asText ? <NotebookView {...notebook} path={path} /> : <CodeView path={path} text={text} cut={!whole} />)}
    </section>
  );
}

/** Pictures of pixels only: the type is ours, so markup in a picture's clothes is no picture. */
function ImageView({ bytes: data, path }: { bytes: Uint8Array<ArrayBuffer>; path: string }) {
  const type = `image/${(path.split(".").at(-1) ?? "png").toLowerCase().replace("jpg", "jpeg")}`;
  const source = useMemo(() => URL.createObjectURL(new Blob([data], { type })), [data]);
  useEffect(() => () => URL.revokeObjectURL(source), [source]);
  return <div class="image-view"><img src={source} alt={path} /></div>;
}

function CodeView({ path, text, cut }: { path: string; text: string; cut: boolean }) {
  const lines = useMemo(() => tokenLines(path, text).map((tokens, index) => ({ number: index + 1, tokens })), [path, text]);
  // A link can lead to a line.
  const { query } = useStore(place);
  const marked = Number(query.get("line")) || null;
  return (
    <div class="code">
      {cut && <p class="banner banner-wait"><Icon name="info" />Only the first {bytes(SHOWN_BYTES)} are shown.</p>}
      <VirtualList
        rows={lines} version={0} keyOf={(line) => line.number} guessHeight={() => 20} label={`Content of ${path}`} role="list" target={marked}
        render={(line) => (
          <div class={`code-line${line.number === marked ? " marked" : ""}`} role="listitem"><span class="code-number" aria-hidden="true">{line.number}</span>
            <code>{line.tokens.map((token, index) => <span key={index} class={token.kind && `token-${token.kind}`}>{plain(token.text)}</span>)}{line.tokens.length === 0 && " "}</code>
          </div>
        )}
      />
    </div>
  );
}
