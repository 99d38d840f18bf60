// A model that is being taught anew: how far it is, and that one can go on meanwhile.

import { html, useEffect } from "./vendor/htm-preact.js";
import { ask } from "./api.js";
import { Bar, percent, usePolled } from "./parts.js";

const EVERY_MS = 500;

// job: as the answer that began it names it, "/jobs/...". ended(job in figures) is called once.
export function Anew({ job, ended }) {
  const [found] = usePolled(() => ask("GET", job.slice(1)), EVERY_MS, [job]);
  useEffect(() => { if (found && found.state !== "running") ended(found); }, [found?.state]);
  return html`<section class="card" aria-label="Under way"><p>The model is being taught anew with your change, ${percent(found?.progress ?? 0, 0)}. You can go on.</p>
    <${Bar} value=${found?.progress ?? 0} label="progress of teaching the model anew" /></section>`;
}
