// The figures and the history of one model, which the page refreshes while the model changes.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, follow, path } from "./api.js";
import { announce } from "./parts.js";

// The figures and history of a model. The view refreshes the figures and the history while the model changes, with one
// request of each at a time.
export function useLive(model) {
  const [live, setLive] = useState({ figures: null, history: null, shadows: null, error: null, open: false });
  const again = useRef(() => {});
  useEffect(() => {
    let ended = false, busy = false, dirty = false, history = null;
    const read = async () => {
      if (busy || document.hidden) { dirty = true; return; }
      busy = true;
      dirty = false;
      try {
        const to = `models/${path(model)}`;
        const from = history?.curve.position.at(-1) ?? 0;
        const [figures, news] = await Promise.all([ask("GET", to), ask("GET", `${to}/history?from=${from}`)]);
        const shadows = Object.keys(news.shadows).length || history?.challenged ? await ask("GET", `${to}/shadows`) : null;
        // Each refresh adds one point, for the present. Fetch the whole history again if the curve has grown too long,
        // if the server has thinned it, after a rollback, or if a challenger is new: its curve begins with the log.
        history = history && history.curve.position.length < 2 * news.points_max && news.stride === history.stride && news.position >= history.position && !undone(history, news) && !joins(history, news)
          ? grown(history, news) : from ? await ask("GET", `${to}/history`) : news;
        history.challenged = Object.keys(history.shadows).length > 0;
        if (!ended) setLive((was) => ({ ...was, figures, history, shadows, error: null }));
      } catch (error) {
        if (!ended) setLive((was) => ({ ...was, error }));
      }
      busy = false;
      if (dirty && !ended) setTimeout(read, 300);
    };
    again.current = read;
    read();
    const seen = () => { if (!document.hidden) read(); };
    document.addEventListener("visibilitychange", seen);
    const slow = setInterval(read, 15_000); // this is needed if the event stream cannot be opened
    const end = follow(model, (kinds) => {
      if (kinds.has("drift")) announce("drift: the error rate of the stream rose");
      if (kinds.has("alarm")) announce("alarm: errors have become more frequent");
      if (kinds.has("input_alarm")) announce("alarm: the inputs have changed");
      read();
    }, (open) => setLive((was) => ({ ...was, open })));
    return () => { ended = true; end(); clearInterval(slow); document.removeEventListener("visibilitychange", seen); };
  }, [model]);
  return [live, () => again.current()];
}

const undone = (history, news) => news.marks.filter((m) => m.kind === "rolled_back").length !== history.marks.filter((m) => m.kind === "rolled_back").length;

const joins = (history, news) => Object.keys(news.shadows).some((name) => !(name in history.shadows));

function grown(history, news) {
  const add = (curve, more) => (curve
    ? Object.fromEntries(Object.keys(more).map((name) => [name, curve[name].concat(more[name])])) : more);
  const after = (curve) => curve?.position.at(-1) ?? 0;
  const behind = (more, position) => {
    const first = more.position.findIndex((p) => p > position);
    return Object.fromEntries(Object.keys(more).map((name) => [name, first < 0 ? [] : more[name].slice(first)]));
  };
  const shadows = Object.fromEntries(Object.entries(news.shadows).map(([name, more]) => [
    name, add(history.shadows[name], behind(more, after(history.shadows[name])))]));
  return { ...news, curve: add(history.curve, behind(news.curve, after(history.curve))), shadows };
}

