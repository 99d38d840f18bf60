// The whole page: sign-in, header and the current view.

import { html, render, useEffect, useState } from "./vendor/htm-preact.js";
import { may, signIn, signOut, who } from "./api.js";
import { Instead, link, Problem } from "./parts.js";
import { Start } from "./start.js";

// The browser loads these views when somebody opens them.
const VIEWS = {
  watch: () => import("./model.js").then((m) => m.Model),
  label: () => import("./label.js").then((m) => m.Label),
  decide: () => import("./decide.js").then((m) => m.Decide),
  suspects: () => import("./suspects.js").then((m) => m.Suspects),
  data: () => import("./data.js").then((m) => m.Data),
  people: () => import("./people.js").then((m) => m.People),
};
const NEEDS = { watch: "reader", label: "annotator", decide: "reader", suspects: "writer", data: "writer", people: "admin" };
const WORDS = { watch: "Watch", label: "Label", decide: "Decide", suspects: "Suspects", data: "Data" }; // the views of a model
const WHOLE = ["data", "people"]; // views that need no model
const loaded = {};
let moves = false; // whether a link led to the present view, and not the address of the page

// The view that the address names: "#/models/NAME/VIEW", "#/models/NAME/watch/FOLD", "#/models/NAME/watch/settings/PART", "#/data" or "#/people"; any other
// address means the start.
function place() {
  const parts = location.hash.replace(/^#\/?/, "").split("/").map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  if (parts[0] === "models" && parts[1]) {
    const own = who.role === "annotator" ? "label" : "watch";
    return { model: parts[1], view: WORDS[parts[2]] ? parts[2] : own, fold: parts[3], part: parts[4] };
  }
  return { model: null, view: WHOLE.includes(parts[0]) ? parts[0] : "start" };
}

function SignIn({ done, lost }) {
  const [error, setError] = useState(lost);
  const submit = async (event) => {
    event.preventDefault();
    const form = event.target;
    try {
      await signIn(form.elements.key.value, form.elements.keep.checked);
      done();
    } catch (caught) {
      setError(caught);
      form.elements.key.select();
    }
  };
  return html`<main class="sign-in"><h1>hinged</h1>
    <p>This server needs a key. Its administrator makes keys under "People", or with <code>hinged keys create</code>.</p>
    <form onSubmit=${submit}>
      <label>Key <input name="key" type="password" autocomplete="off" required autofocus spellcheck=${false} /></label>
      <label class="tick"><input name="keep" type="checkbox" /> Remember the key in this tab</label>
      <button class="main">Sign in</button>
    </form>
    <${Problem} error=${error} />
    ${error?.status === 401 && html`<p class="soft">A key begins with <code>hinged_</code>. Ask the person who sent you this address for a new key.</p>`}</main>`;
}

function View({ at }) {
  const [, setLoaded] = useState(0);
  const [error, setError] = useState(null);
  const View = loaded[at.view];
  useEffect(() => {
    if (loaded[at.view] || !VIEWS[at.view]) return;
    VIEWS[at.view]().then((view) => { loaded[at.view] = view; setLoaded((n) => n + 1); }, setError);
  }, [at.view]);
  useEffect(() => { // the reader of a screen begins with the view that a link led to
    const main = document.getElementById("main");
    if (moves && (View || !VIEWS[at.view])) (main.querySelector("[autofocus]") ?? main).focus({ preventScroll: true });
  }, [View]);
  const title = at.model ?? "hinged";
  if (error) return html`<${Instead} title=${title} error=${error} />`;
  if (at.view === "start") return html`<${Start} />`;
  if (!may(NEEDS[at.view])) {
    return html`<${Instead} title=${title} error=${{ message: `This view needs a key with the role ${NEEDS[at.view]}; your key has the role ${who.role}.` }} />`;
  }
  return View ? html`<${View} key=${at.model} model=${at.model} fold=${at.fold} part=${at.part} />` : html`<${Instead} title=${title} />`;
}

function App() {
  const [state, setState] = useState("asking"); // asking, out, in
  const [error, setError] = useState(null);
  const [at, setAt] = useState(place);
  const enter = () => { setAt(place()); setError(null); setState("in"); };
  const begin = async () => {
    try {
      await signIn(null);
      enter();
    } catch (caught) {
      const out = caught.status === 401;
      setError(out ? null : caught);
      setState(out ? "out" : "asking");
      if (caught.passing) setTimeout(begin, 1000);
    }
  };
  useEffect(() => {
    begin();
    const moved = () => { moves = true; const to = place(); setAt(to); if (!to.fold) scrollTo(0, 0); };
    const back = (event) => { if (event.persisted) location.reload(); }; // a page from the browser's cache has lost its streams and leases
    const lost = () => setState((was) => { // the key was revoked
      if (was !== "in") return was;
      signOut();
      setError({ status: 401, message: "the server does not know your key any more" });
      return "out";
    });
    const heard = { hashchange: moved, pageshow: back, "unknown-key": lost };
    for (const [name, hear] of Object.entries(heard)) addEventListener(name, hear);
    return () => { for (const [name, hear] of Object.entries(heard)) removeEventListener(name, hear); };
  }, []);
  useEffect(() => { document.title = at.model ? `${at.model}: hinged` : "hinged"; }, [at.model]);
  if (state === "out") return html`<${SignIn} done=${enter} lost=${error} />`;
  if (state === "asking") return html`<main><p class="waiting" role="status">
    ${error ? `The server is not ready: ${error.message}. Trying again.` : "Loading…"}</p></main>`;
  const tabs = Object.keys(WORDS).filter((view) => may(NEEDS[view]) && !(view === "watch" && who.role === "annotator"));
  return html`
    <header class="top">
      <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById("main").focus(); }}>Skip to content</a>
      <nav aria-label="Breadcrumb">
        <a class="brand" href="#/">hinged</a>
        ${at.model && html`<span aria-hidden="true">/</span><a class="where" href=${link(at.model)}><bdi>${at.model}</bdi></a>`}
      </nav>
      ${at.model && html`<nav class="tabs" aria-label="Views of this model">${tabs.map((view) => html`
        <a href=${link(at.model, view)} aria-current=${view === at.view ? "page" : null}>${WORDS[view]}</a>`)}</nav>`}
      <span class="room"></span>
      ${!at.model && may("writer") && at.view !== "data" && html`<a class="button" href="#/data">Import data</a>`}
      ${!at.model && may("admin") && who.models.includes("*") && at.view !== "people" && html`<a class="button" href="#/people">People</a>`}
      <span class="who">${who.name !== "everyone" && html`<bdi>${who.name}</bdi> (${who.role})
        <button class="plain" onClick=${() => { signOut(); location.hash = ""; location.reload(); }}>Sign out</button>`}</span>
    </header>
    <main id="main" tabindex="-1" class=${at.view}><${View} at=${at} key=${`${at.model}/${at.view}`} /></main>`;
}

const app = document.getElementById("app");
app.textContent = "";
render(html`<${App} />`, app);
