// The console: one page for the whole yard.

import "./styles/console.css";

import { render } from "preact";

import { Home } from "./home/home";
import { JobPage } from "./job/job-page";
import { Lazy } from "./ui/lazy";
import { place } from "./ui/router";
import { Shell } from "./ui/shell";
import { useStore } from "./ui/store";

function Page() {
  const { path } = useStore(place);
  const [, , noun, id, room = "", ...rest] = path.split("/").map(decode);
  if (path === "/" || path === "/console/" || path === "/console") return <Home />;
  if (noun === "jobs" && id) return <JobPage key={id} id={id} room={room} rest={rest.join("/")} />;
  if (noun === "system") return <Lazy load={async () => (await import("./system/system")).System} props={{}} />;
  return <main class="page"><div class="empty"><h1>There is no such page</h1><a class="button" href="/">Back to the yard</a></div></main>;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function App() {
  return <Shell><Page /></Shell>;
}

const root = document.getElementById("app");
if (root) render(<App />, root);
