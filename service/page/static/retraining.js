// The progress of a job, which the page asks for until the job ends.

import { html, useEffect, useRef } from "./vendor/htm-preact.js";
import { ask } from "./api.js";
import { Bar, percent, plural, usePolled } from "./parts.js";

const EVERY_MS = 500;
const WORDS = { configure: "Retraining with the new settings", correct: "Retraining with a corrected label", forget: "Forgetting an example", shadow: "Training a challenger" };

// How long the rest of a job takes at its pace so far, in words. since: the first answer, {progress, at}.
function left({ progress, at }, now) {
  const s = now > progress ? ((Date.now() - at) / 1000) * ((1 - now) / (now - progress)) : 0;
  return s < 1 ? "" : `, about ${s < 90 ? plural(Math.ceil(s), "second") : plural(Math.round(s / 60), "minute")} left at this pace`;
}

// job: the path in the server's answer, "/jobs/...". Calls ended(job) once, after the job has ended. A job that the server
// no longer knows has ended, too.
export function Progress({ job, ended, children }) {
  const [found, error] = usePolled(() => ask("GET", job.slice(1)), EVERY_MS, [job]), first = useRef(null), lost = error?.status === 404;
  useEffect(() => { if (lost) ended({ error: error.message }); else if (found && found.state !== "running") ended(found); }, [found?.state, lost]);
  const progress = found?.progress ?? 0, word = WORDS[found?.kind] ?? found?.kind ?? "";
  if (found) first.current ??= { progress, at: Date.now() };
  return html`<p>${word}${found && ": "}${percent(progress, 0)}${found && left(first.current, progress)}. ${children}</p>
    <${Bar} value=${progress} label=${`progress: ${word}`} />`;
}
