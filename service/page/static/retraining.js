// The progress of a retraining. The annotator can go on labelling meanwhile.

import { html, useEffect } from "./vendor/htm-preact.js";
import { ask } from "./api.js";
import { Bar, percent, usePolled } from "./parts.js";

const EVERY_MS = 500;

// job: the path from the server's answer, "/jobs/...". Calls ended(job) once, when the job has ended.
export function Retraining({ job, ended }) {
  const [found] = usePolled(() => ask("GET", job.slice(1)), EVERY_MS, [job]);
  useEffect(() => { if (found && found.state !== "running") ended(found); }, [found?.state]);
  return html`<section class="card" aria-label="Retraining"><p>Retraining the model with your change: ${percent(found?.progress ?? 0, 0)}. You can go on labelling.</p>
    <${Bar} value=${found?.progress ?? 0} label="progress of the retraining" /></section>`;
}
