// Charts over a learning curve, each with the table behind it. At most some hundred points, whatever the model has seen.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { count, figure } from "./parts.js";

const HEIGHT = 200;
const ROWS = 60; // of the table behind a chart
const TIME = new Intl.DateTimeFormat("en", { dateStyle: "short", timeStyle: "medium" });

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Columns of several curves over one x: [[x...], [y...], ...], null where a curve has no point.
export function joined(curves, x) {
  return curves.length === 1 ? [curves[0][x], curves[0].y] : uPlot.join(curves.map((c) => [c[x], c.y]));
}

function options(width, series, { time, asPercent, log, marks }) {
  const soft = colour("--soft"), line = colour("--line");
  const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui" };
  const short = (v) => (Math.abs(v) >= 1e4 ? Intl.NumberFormat("en", { notation: "compact" }).format(v) : figure(v));
  return {
    width, height: HEIGHT, legend: { show: false }, padding: [8, 8, 0, 0],
    cursor: { sync: { key: "hinged" }, drag: { x: true, y: false }, points: { size: 6 } },
    scales: { x: { time }, y: log ? { distr: 3 } : asPercent ? { range: (u, a, b) => shareRange(a, b) } : { range: (u, a, b) => [Math.min(0, a ?? 0), (b || 1) * 1.05] } },
    axes: [
      { ...axis, values: time ? undefined : (u, ticks) => ticks.map(short) },
      { ...axis, size: 56, values: (u, ticks) => ticks.map((v) => (v === null ? "" : asPercent ? `${+(100 * v).toFixed(1)} %` : short(v))) },
    ],
    series: [{}, ...series.map((s) => ({
      label: s.name, stroke: colour(`--c${s.k}`), width: s.k === 1 ? 2 : 1.4, dash: s.dash, spanGaps: true, points: { show: false },
    }))],
    hooks: { draw: [(u) => drawMarks(u, marks())] },
  };
}

// Enough room for what is there, inside of 0 to 1.
function shareRange(least, most) {
  if (least === null || least === undefined) return [0, 1];
  const room = Math.max((most - least) * 0.08, 0.01);
  return [Math.max(0, least - room), Math.min(1, most + room)];
}

function drawMarks(u, marks) {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  ctx.font = `${11 * devicePixelRatio}px system-ui`;
  let last = -Infinity;
  for (const { at, kind } of marks) {
    const x = Math.round(u.valToPos(at, "x", true));
    if (!(x >= bbox.left && x <= bbox.left + bbox.width)) continue;
    ctx.strokeStyle = ctx.fillStyle = colour(kind === "drift" ? "--warn" : "--soft");
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    if (x - last > 60 * devicePixelRatio) {
      const text = kind.replace("_", " "), room = 3 * devicePixelRatio;
      const left = x + room + ctx.measureText(text).width > bbox.left + bbox.width;  // else it would be cut off
      ctx.textAlign = left ? "right" : "left";
      ctx.fillText(text, left ? x - room : x + room, bbox.top + 10 * devicePixelRatio);
      last = x;
    }
  }
  ctx.restore();
}

// data: columns as uPlot takes them, x first. series: [{name, k: number of its colour}]. marks: [{at, kind}].
export function Chart({ title, data, series, marks = [], time = false, asPercent = false, log = false }) {
  const box = useRef(), plot = useRef(null), shown = useRef(marks);
  const [under, setUnder] = useState(null); // the place that the cursor is on
  const [open, setOpen] = useState(false);
  const empty = !data[0]?.length;
  shown.current = marks;
  useLayoutEffect(() => {
    if (empty) return undefined;
    const made = new uPlot(
      options(box.current.clientWidth || 300, series, { time, asPercent, log, marks: () => shown.current }), data, box.current,
    );
    made.hooks.setCursor = [(u) => setUnder(u.cursor.idx ?? null)];
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: Math.max(120, box.current.clientWidth), height: HEIGHT }));
    watch.observe(box.current);
    return () => { watch.disconnect(); made.destroy(); plot.current = null; };
  }, [empty, time, asPercent, log, series.map((s) => s.name + s.k).join("|"), useScheme()]);
  useEffect(() => { plot.current?.setData(data); }, [data]);
  const word = (v) => (v === null || v === undefined ? "–" : asPercent ? `${(100 * v).toFixed(1)} %` : figure(v));
  const at = under !== null && under < (data[0]?.length ?? 0) ? under : null;
  const newest = (column) => { for (let i = column.length - 1; i >= 0; i--) if (column[i] !== null) return column[i]; return null; };
  const where = (v) => (time ? TIME.format(1000 * v) : count(v));
  return html`<section class="card chart" aria-label=${title}>
    <h2>${title}<ul class="legend">${series.map((s, i) => html`<li class=${`k${s.k}`}><i></i>${s.name} <b>${
      word(at === null ? newest(data[i + 1] ?? []) : data[i + 1]?.[at])}</b></li>`)}
      ${at !== null && html`<li>at ${where(data[0][at])}</li>`}</ul></h2>
    ${empty ? html`<p class="soft plot">Nothing yet.</p>` : html`<div class="plot" ref=${box} aria-hidden="true"></div>`}
    <details onToggle=${(e) => setOpen(e.target.open)}><summary>The same as a table</summary>
      ${open && html`<${Behind} title=${title} data=${data} series=${series} word=${word} where=${where} />`}</details>
  </section>`;
}

function Behind({ title, data, series, word, where }) {
  const n = data[0]?.length ?? 0, step = Math.max(1, Math.ceil(n / ROWS));
  const rows = [];
  for (let i = n - 1; i >= 0; i -= step) rows.push(i);
  return html`<div class="behind" tabindex="0" role="group" aria-label=${`${title}, as a table`}><table>
    <thead><tr><th scope="col">At</th>${series.map((s) => html`<th scope="col" class="number">${s.name}</th>`)}</tr></thead>
    <tbody>${rows.map((i) => html`<tr><th scope="row">${where(data[0][i])}</th>
      ${series.map((s, k) => html`<td class="number">${word(data[k + 1][i])}</td>`)}</tr>`)}</tbody></table></div>`;
}

// Counts up when the system turns from light to dark: canvases know colours, not their names.
function useScheme() {
  const [turns, setTurns] = useState(0);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const turned = () => setTurns((n) => n + 1);
    query.addEventListener("change", turned);
    return () => query.removeEventListener("change", turned);
  }, []);
  return turns;
}

// How often predictions were right against the probability that they were given, with the examples of each bin.
export function Reliability({ bins }) {
  const size = 180, at = (v) => (v * (size - 30) + 25).toFixed(1), up = (v) => ((1 - v) * (size - 30) + 5).toFixed(1);
  const most = Math.max(1, ...bins.map((b) => b.examples));
  return html`<section class="card"><h2>Are its probabilities right?</h2>
    ${bins.length === 0 ? html`<p class="soft">Nothing yet.</p>` : html`<div class="row">
    <svg width=${size} height=${size} role="img" aria-label="Reliability: how often predictions were right, by their probability">
      <path d=${`M${at(0)} ${up(0)}H${at(1)}M${at(0)} ${up(0)}V${up(1)}`} fill="none" stroke="var(--soft)" />
      <path d=${`M${at(0)} ${up(0)}L${at(1)} ${up(1)}`} stroke="var(--line)" stroke-dasharray="4 4" />
      ${bins.map((b) => html`<circle cx=${at(b.probability)} cy=${up(b.accuracy)} r=${(2 + 6 * Math.sqrt(b.examples / most)).toFixed(1)} fill="var(--c1)" fill-opacity=".75" />`)}
      <text x=${at(0.5)} y=${size - 4} text-anchor="middle" font-size="11" fill="var(--soft)">probability</text>
      <text x="10" y=${up(0.5)} text-anchor="middle" font-size="11" fill="var(--soft)" transform=${`rotate(-90 10 ${up(0.5)})`}>right</text>
    </svg>
    <table class="behind"><thead><tr><th scope="col">Said</th><th scope="col" class="number">Right</th><th scope="col" class="number">Examples</th></tr></thead>
      <tbody>${bins.map((b) => html`<tr><th scope="row">${(100 * b.probability).toFixed(0)} %</th>
        <td class="number">${(100 * b.accuracy).toFixed(1)} %</td><td class="number">${count(b.examples)}</td></tr>`)}</tbody></table></div>`}</section>`;
}
