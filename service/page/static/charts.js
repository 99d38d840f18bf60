// Charts of a learning curve. Each chart has a table with the same figures. The server thins a curve to a few hundred
// points.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { count, figure } from "./parts.js";

const HEIGHT = 200; // height of a chart in pixels
const LABELS = 22; // pixels above a plot for the words of marks
const STEPS = 4; // maximum number of steps on an axis
const ROWS = 60; // maximum number of rows in a chart's table
const TIME = new Intl.DateTimeFormat("en", { dateStyle: "short", timeStyle: "medium" });
const TICK = 80; // minimum number of pixels between two words under a plot; each word is narrower

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Join several curves over a common x: [[x...], [y...], ...]. A curve is null where it has no point.
export function joined(curves, x) {
  return curves.length === 1 ? [curves[0][x], curves[0].y] : uPlot.join(curves.map((c) => [c[x], c.y]));
}

// The step between the numbers of an axis: 1, 2, 2.5 or 5 times a power of ten, so that an axis has at most STEPS steps.
function stepOf(span) {
  const least = span / STEPS, power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 2.5, 5, 10].find((k) => k * power >= least * (1 - 1e-9));
}

// The ends of an axis. The ends are multiples of the axis's step, at or below the smallest value and at or above the
// largest value, so that no line leaves the axis.
function rangeOf(least, most, asPercent) {
  if (least === null || least === undefined) return [0, 1];
  let [low, high] = asPercent ? [least, most] : [Math.min(0, least), most];
  if (high - low < 1e-9 * Math.max(1e-290, Math.abs(high))) [low, high] = asPercent ? [Math.max(0, low - 0.01), Math.min(1, high + 0.01)] : [low, high + (Math.abs(high) || 1)];
  const step = stepOf(high - low);
  low = step * Math.floor(low / step + 1e-9);
  high = step * Math.ceil(high / step - 1e-9);
  return asPercent ? [Math.max(0, low), Math.min(1, high)] : [low, high];
}

function numbersOf(low, high) {
  const step = stepOf(high - low), numbers = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) numbers.push(+(k * step).toPrecision(12));
  return numbers;
}

const clock = (more) => new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...more });
const DAY = new Intl.DateTimeFormat("en", { month: "short", day: "numeric" }), YEAR = new Intl.DateTimeFormat("en", { year: "numeric" });
const MINUTE = 60, HOUR = 3600, DAYS = 86400;
// The steps in seconds between the times under a plot. None is above 2.5 times the one before, so that a tick fits.
const STRIDES = [
  ...[0.001, 0.01, 0.1].flatMap((s) => [s, 2 * s, 5 * s]), ...[1, MINUTE].flatMap((s) => [1, 2, 5, 10, 15, 30].map((k) => k * s)),
  ...[1, 2, 3, 6, 12].map((k) => k * HOUR), ...[1, 2, 4, 7, 15, 30, 60, 120, 180].map((k) => k * DAYS),
  ...[1, 2, 5, 10, 20, 50].map((k) => 365 * k * DAYS),
];
// By the least step in seconds: how the time at a tick is written, and what stands below it where it changes.
const TIMES = [
  [DAYS, DAY, YEAR], [MINUTE, clock(), DAY], [1, clock({ second: "2-digit" }), DAY],
  [0, clock({ second: "2-digit", fractionalSecondDigits: 3 }), DAY],
];

function timesOf(ticks, step) {
  const [, time, below] = TIMES.find(([least]) => step >= least);
  let last = null;
  return ticks.map((tick) => {
    if (tick === null) return "";
    const now = below.format(1000 * tick), changed = now !== last;
    last = now;
    return time.format(1000 * tick) + (changed ? `\n${now}` : "");
  });
}

function options(width, series, { time, asPercent, marks }) {
  const soft = colour("--soft"), line = colour("--line");
  const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui" };
  const short = (v) => (Math.abs(v) >= 1e4 ? Intl.NumberFormat("en", { notation: "compact" }).format(v) : figure(v));
  return {
    width, height: HEIGHT, legend: { show: false }, padding: [LABELS, TICK / 2, 0, 0], // pixels; half of the last word under the plot must fit on the right
    cursor: { sync: { key: "hinged" }, drag: { x: true, y: false }, points: { size: 6 } },
    scales: { x: { time }, y: { range: (u, a, b) => rangeOf(a, b, asPercent) } },
    axes: [
      {
        ...axis, space: TICK, incrs: time ? STRIDES : undefined,
        filter: (u, ticks) => ticks.map((v) => (v > u.scales.x.max ? null : v)), // the first tick may lie beyond the plot
        values: (u, ticks, i, space, step) => (time ? timesOf(ticks, step) : ticks.map((v) => (v === null ? "" : short(v)))),
      },
      { ...axis, size: 56, splits: (u, i, low, high) => numbersOf(low, high), values: (u, ticks) => ticks.map((v) => (v === null ? "" : asPercent ? `${+(100 * v).toFixed(1)} %` : short(v))) },
    ],
    series: [{}, ...series.map((s) => ({
      label: s.name, stroke: colour(`--c${s.k}`), width: s.k === 1 ? 2 : 1.4, dash: s.dash, spanGaps: true,
      points: { size: 7, show: (u, i) => u.data[i].filter((v) => v !== null).length === 1 }, // a line needs two points
    }))],
    hooks: { draw: [(u) => drawMarks(u, marks())] },
  };
}

// Draw marks: dashed lines over the plot, with words above. Words that would overlap become one text.
function drawMarks(u, marks) {
  const { ctx, bbox } = u, dpr = devicePixelRatio, right = ctx.canvas.width - dpr;
  const there = marks.map((mark) => ({ ...mark, x: Math.round(u.valToPos(mark.at, "x", true)) }))
    .filter(({ x }) => x >= bbox.left && x <= bbox.left + bbox.width).sort((a, b) => a.x - b.x);
  ctx.save();
  ctx.lineWidth = dpr;
  ctx.font = `${11 * dpr}px system-ui`;
  ctx.textAlign = "left";
  ctx.textBaseline = "alphabetic";
  ctx.setLineDash([3 * dpr, 3 * dpr]);
  const groups = [];
  for (const { x, text, warns } of there) {
    ctx.strokeStyle = colour(warns ? "--warn" : "--soft");
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    groups.push({ texts: [text], warns, left: x });
    // Merge the group with the group on its left while their texts overlap.
    for (let last = placed(ctx, groups.at(-1), right); groups.length > 1 && last.left < groups.at(-2).end + 6 * dpr; last = placed(ctx, groups.at(-1), right)) {
      const { texts, warns } = groups.pop(), before = groups.at(-1);
      before.texts.push(...texts);
      before.warns ||= warns;
    }
  }
  for (const { text, warns, left, end } of groups) {
    ctx.fillStyle = colour(warns ? "--warn" : "--soft");
    ctx.fillText(text, left, bbox.top - 5 * dpr, end - left);
  }
  ctx.restore();
}

// Set the text of a group of marks, and the pixels at which the text starts and ends.
function placed(ctx, group, right) {
  const counts = new Map();
  for (const text of group.texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  group.text = [...counts].map(([text, n]) => text + (n > 1 ? ` ×${n}` : "")).join(", ");
  const width = ctx.measureText(group.text).width;
  group.left = Math.max(0, Math.min(group.left, right - width));
  group.end = Math.min(right, group.left + width);
  return group;
}

// data: the columns for uPlot, x first. series: [{name, k: number of its colour}]. marks: [{at, text, warns}]. of: what x is.
// here: the index of the point that the legend shows while no point is under the cursor; null: the last one.
export function Chart({ title, data, series, marks = [], time = false, asPercent = false, of = time ? "Time" : "Example", here = null }) {
  const box = useRef(), plot = useRef(null), shown = useRef(marks);
  const [under, setUnder] = useState(null); // the index of the point under the cursor
  const [open, setOpen] = useState(false);
  const empty = !data[0]?.length;
  shown.current = marks;
  useLayoutEffect(() => {
    if (empty) return undefined;
    const made = new uPlot(
      options(box.current.clientWidth || 300, series, { time, asPercent, marks: () => shown.current }), data, box.current,
    );
    made.hooks.setCursor = [(u) => setUnder(u.cursor.idx ?? null)];
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: Math.max(120, box.current.clientWidth), height: HEIGHT }));
    watch.observe(box.current);
    return () => { watch.disconnect(); made.destroy(); plot.current = null; };
  }, [empty, time, asPercent, series.map((s) => s.name + s.k).join("|"), useScheme()]);
  useEffect(() => { plot.current?.setData(data); }, [data]);
  const word = (v) => (v === null || v === undefined ? "–" : asPercent ? `${(100 * v).toFixed(1)} %` : figure(v));
  const at = under !== null && under < (data[0]?.length ?? 0) ? under : here;
  const newest = (column) => { for (let i = column.length - 1; i >= 0; i--) if (column[i] !== null) return column[i]; return null; };
  const where = (v) => (time ? TIME.format(1000 * v) : count(+v.toFixed(1)));
  return html`<section class="card chart" aria-label=${title}>
    <h2>${title}<ul class="legend">${series.map((s, i) => html`<li class=${`k${s.k}`}><i></i>${s.name} <b>${
      word(at === null ? newest(data[i + 1] ?? []) : data[i + 1]?.[at])}</b></li>`)}
      ${at !== null && html`<li>at ${where(data[0][at])}</li>`}</ul></h2>
    ${empty ? html`<p class="soft plot">No data yet. The curve starts with the first labelled examples.</p>` : html`<div class="plot" ref=${box} aria-hidden="true"></div>`}
    <details onToggle=${(e) => setOpen(e.target.open)}><summary>Show as a table</summary>
      ${open && html`<${Behind} title=${title} at=${of} data=${data} series=${series} word=${word} where=${where} />`}</details>
  </section>`;
}

function Behind({ title, at, data, series, word, where }) {
  const n = data[0]?.length ?? 0, step = Math.max(1, Math.ceil(n / ROWS));
  const rows = [];
  for (let i = n - 1; i >= 0; i -= step) rows.push(i);
  return html`<div class="behind" tabindex="0" role="group" aria-label=${`${title}, as a table`}><table>
    <thead><tr><th scope="col">${at}</th>${series.map((s) => html`<th scope="col" class="number">${s.name}</th>`)}</tr></thead>
    <tbody>${rows.map((i) => html`<tr><th scope="row">${where(data[0][i])}</th>
      ${series.map((s, k) => html`<td class="number">${word(data[k + 1][i])}</td>`)}</tr>`)}</tbody></table></div>`;
}

// Count the changes between light and dark mode. After a change, a canvas must be drawn again in the other colours.
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

// A reliability diagram: it plots the share of correct predictions against their predicted probability. A larger dot
// represents more examples.
export function Reliability({ bins }) {
  const size = 180, at = (v) => (v * (size - 30) + 25).toFixed(1), up = (v) => ((1 - v) * (size - 30) + 5).toFixed(1);
  const most = Math.max(1, ...bins.map((b) => b.examples));
  return html`<section class="card"><h3>Reliability</h3>
    ${bins.length === 0 ? html`<p class="soft">No data yet. The model predicts probabilities once it has learned enough examples.</p>` : html`<div class="row">
    <svg width=${size} height=${size} role="img" aria-label="Reliability diagram: share of correct predictions by predicted probability">
      <path d=${`M${at(0)} ${up(0)}H${at(1)}M${at(0)} ${up(0)}V${up(1)}`} fill="none" stroke="var(--soft)" />
      <path d=${`M${at(0)} ${up(0)}L${at(1)} ${up(1)}`} stroke="var(--line)" stroke-dasharray="4 4" />
      ${bins.map((b) => html`<circle cx=${at(b.probability)} cy=${up(b.accuracy)} r=${(2 + 6 * Math.sqrt(b.examples / most)).toFixed(1)} fill="var(--c1)" fill-opacity=".75" />`)}
      <text x=${at(0.5)} y=${size - 4} text-anchor="middle" font-size="11" fill="var(--soft)">predicted probability</text>
      <text x="10" y=${up(0.5)} text-anchor="middle" font-size="11" fill="var(--soft)" transform=${`rotate(-90 10 ${up(0.5)})`}>correct</text>
    </svg>
    <table class="behind"><thead><tr><th scope="col">Predicted</th><th scope="col" class="number">Correct</th><th scope="col" class="number">Examples</th></tr></thead>
      <tbody>${bins.map((b) => html`<tr><th scope="row">${(100 * b.probability).toFixed(0)} %</th>
        <td class="number">${(100 * b.accuracy).toFixed(1)} %</td><td class="number">${count(b.examples)}</td></tr>`)}</tbody></table></div>`}</section>`;
}
