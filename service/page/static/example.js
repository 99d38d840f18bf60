// Show an x as a picture, as text, or as a table of names and values. Markup in an x is shown as text.

import { html, useLayoutEffect, useRef } from "./vendor/htm-preact.js";
import { figure, plural } from "./parts.js";

const ROWS_MAX = 200; // maximum number of rows in a table
const SIDE = 280; // pixels, the longer side of a picture
const TEXT_MIN = 60; // minimum length in characters of a text that is shown above the table; shorter strings are shown in the table

// The minimum, maximum and mean of each numeric feature, over the questions since the page was opened.
export class Usual {
  constructor() { this.seen = new Map(); this.known = new Set(); }
  add(id, x) {
    if (typeof x === "string" || this.known.has(id)) return;
    this.known.add(id);
    for (const [name, value] of pairs(x)) {
      if (typeof value !== "number") continue;
      const at = this.seen.get(name) ?? { n: 0, least: Infinity, most: -Infinity, sum: 0 };
      at.n += 1;
      at.sum += value;
      at.least = Math.min(at.least, value);
      at.most = Math.max(at.most, value);
      this.seen.set(name, at);
      if (this.seen.size > 2000) break;
    }
  }
  of(name) {
    const at = this.seen.get(name);
    return at && at.n > 1 && at.most > at.least ? { ...at, mean: at.sum / at.n } : null;
  }
}

function pairs(x) {
  if (typeof x === "string") return [["text", x]];
  if (Array.isArray(x)) return x.map((value, i) => [String(i), value]);
  if (x && Array.isArray(x.indices) && Array.isArray(x.values)) return x.indices.map((index, i) => [String(index), x.values[i]]);
  return Object.entries(x ?? {});
}

function Picture({ x, rows, columns, side }) {
  const canvas = useRef();
  useLayoutEffect(() => {
    const image = new ImageData(columns, rows), pixels = image.data.fill(255);
    let most = -Infinity, least = 0; // Math.max(...x) would fail for a million numbers
    for (const v of x) { most = Math.max(most, v); least = Math.min(least, v); }
    if (most > least) x.forEach((v, i) => { pixels.fill(255 - Math.round((255 * (v - least)) / (most - least)), 4 * i, 4 * i + 3); });
    canvas.current.getContext("2d").putImageData(image, 0, 0);
  }, [x, rows, columns]);
  const scale = side / Math.max(rows, columns);
  return html`<canvas class="picture" ref=${canvas} width=${columns} height=${rows} role="img" aria-label=${`picture of ${rows} by ${columns}`}
    style=${{ width: `${Math.round(columns * scale)}px`, height: `${Math.round(rows * scale)}px` }}></canvas>`;
}

function UsualBar({ value, usual }) {
  const at = (v) => (100 * Math.min(1, Math.max(0, (v - usual.least) / (usual.most - usual.least)))).toFixed(1);
  return html`<svg class="usual" viewBox="0 0 100 12" preserveAspectRatio="none" role="img"
    aria-label=${`range so far ${figure(usual.least)} to ${figure(usual.most)}, mean ${figure(usual.mean)}`}>
    <rect class="span" x="0" y="4" width="100" height="4" /><rect class="mean" x=${at(usual.mean)} y="1" width="1.5" height="10" />
    <rect class="value" x=${Math.max(0, at(value) - 1.5)} y="0" width="3" height="12" /></svg>`;
}

// Return {image} or {link} for a URL of this server or of an allowed origin, and for a picture in a data URL. Return
// null for any other text.
function allowed(text, origins) {
  if (!/^(https?:\/\/|data:image\/(png|jpeg|gif|webp);base64,)/.test(text)) return null;
  if (text.startsWith("data:")) return { image: text };
  try {
    const url = new URL(text);
    if (url.origin === location.origin) return /\.(png|jpe?g|gif|webp)$/i.test(url.pathname) ? { image: url.href } : { link: url.href };
    return origins.includes(url.origin) ? { link: url.href } : null;
  } catch { return null; }
}

function Value({ value, origins }) {
  if (typeof value !== "string") return typeof value === "number" ? figure(value) : JSON.stringify(value);
  const found = allowed(value, origins);
  if (found?.image) return html`<img src=${found.image} alt="" style=${{ maxWidth: "100%", maxHeight: "16rem" }} />`;
  if (found?.link) return html`<a href=${found.link} target="_blank" rel="noopener noreferrer"><bdi>${value}</bdi></a>`;
  return html`<bdi>${value}</bdi>`;
}

// told: the `show` of a candidate, which the page shows instead of its x. show: the part `show` of the configuration.
export function Example({ x, told = null, show, usual = null, side = SIDE, most = ROWS_MAX }) {
  if (told !== null) return html`<${Example} x=${typeof told === "object" ? told : String(told)} show=${{ origins: show?.origins }} side=${side} most=${most} />`;
  if (x === null || x === undefined) return html`<p class="soft">The x of this example is no longer available.</p>`;
  const image = show?.image, origins = show?.origins ?? [];
  if (image && Array.isArray(x) && x.length === image[0] * image[1]) {
    return html`<${Picture} x=${x} rows=${image[0]} columns=${image[1]} side=${side} />`;
  }
  const all = pairs(x), [only] = all;
  if (all.length === 1 && typeof only[1] === "string" && !allowed(only[1], origins)) {
    return html`<div class="x text" tabindex="0" role="group" aria-label=${only[0].slice(0, 80)}><bdi dir="auto">${only[1]}</bdi></div>`;
  }
  const long = all.filter(([, v]) => typeof v === "string" && v.length >= TEXT_MIN && !allowed(v, origins));
  const short = all.filter((pair) => !long.includes(pair)).slice(0, most);
  return html`<div class="x">
    ${long.map(([name, text]) => html`<p><b><bdi>${name.slice(0, 200)}</bdi></b></p><div class="x text" tabindex="0" role="group" aria-label=${name.slice(0, 80)}><bdi dir="auto">${text}</bdi></div>`)}
    ${short.length > 0 && html`<div class="within" tabindex="0" role="group" aria-label="Features"><table><thead><tr><th scope="col">Feature</th><th scope="col">Value</th>${usual && html`<th scope="col">Range so far</th>`}</tr></thead>
      <tbody>${short.map(([name, value]) => html`<tr><th scope="row"><bdi>${name.slice(0, 200)}</bdi></th><td class="value"><${Value} value=${value} origins=${origins} /></td>
        ${usual && html`<td>${typeof value === "number" && usual.of(name) ? html`<${UsualBar} value=${value} usual=${usual.of(name)} />` : ""}</td>`}</tr>`)}</tbody></table></div>`}
    ${all.length > most + long.length && html`<p class="soft">${plural(all.length - most, "more feature")}.</p>`}</div>`;
}
