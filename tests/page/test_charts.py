"""The charts are legible: every word is whole, no two words overlap, and every line lies inside its axes."""

import random

import pytest

from tests.helpers.examples import examples_of, heaps

WATCHING = """(() => {
  // By canvas, the words drawn since it was last cleared: their text, and left, top, right and bottom in pixels.
  const drawn = new Map();
  self.words_ = () => [...drawn].filter(([canvas]) => canvas.isConnected)
    .map(([canvas, words]) => ({ width: canvas.width, height: canvas.height, words,
      title: canvas.closest("section")?.getAttribute("aria-label") }));
  const own = CanvasRenderingContext2D.prototype, { clearRect, fillText } = own;
  own.clearRect = function (...box) { drawn.set(this.canvas, []); return clearRect.apply(this, box); };
  own.fillText = function (text, x, y, ...more) {
    const of = this.measureText(text), at = this.getTransform().transformPoint({ x, y });
    const box = [at.x - of.actualBoundingBoxLeft, at.y - of.actualBoundingBoxAscent,
      at.x + of.actualBoundingBoxRight, at.y + of.actualBoundingBoxDescent];
    drawn.get(this.canvas)?.push({ text: String(text), box });
    return fillText.call(this, text, x, y, ...more);
  };
})()"""


def opened(tab, server, model, width=1280, scale=1):
    one = tab(server.url, viewport={"width": width, "height": 1600}, device_scale_factor=scale)
    one.page.add_init_script(WATCHING)
    page = one.open(f"models/{model}", ".chart canvas")
    one.unfold("Probabilities", "Drift and events", "Machine")
    page.wait_for_timeout(300)  # until the charts have their widths
    return page


def charts(page):
    found = page.evaluate("words_()")
    assert len(found) >= 5
    return found


def over(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def check(chart):
    words = [word for word in chart["words"] if word["text"].strip()]
    assert words
    for word in words:
        left, top, right, bottom = word["box"]
        assert left >= -1, (chart["title"], word)
        assert top >= -1, (chart["title"], word)
        assert right <= chart["width"] + 1, (chart["title"], word)
        assert bottom <= chart["height"] + 1, (chart["title"], word)
    for i, one in enumerate(words):
        for other in words[:i]:
            assert not over(one["box"], other["box"]), (chart["title"], one, other)


@pytest.fixture(scope="module")
def noisy(client):
    """A model with random labels, so that its duality gap keeps growing. It has many marks, some at the same place."""
    rng = random.Random(1)
    client.create_model("noisy", kernel={"type": "rbf"}, C=10, features={"type": "dense", "dim": 2})
    for k in range(60):
        rows = [{"x": [rng.gauss(0, 1), rng.gauss(0, 1)], "y": int(rng.random() < 0.5)} for _ in range(25)]
        client.learn("noisy", rows)
        if k in (5, 6, 7, 30, 31, 59):
            client.finish("noisy")
        if k in (6, 40):
            client.snapshot("noisy")
        if k == 30:
            client.wait(client.change_model("noisy", C=3.0))
    return "noisy"


DRAWING = """async (asked) => {
  const { Chart } = await import("./ui/charts.js");
  const { html, render } = await import("./ui/vendor/htm-preact.js");
  const box = document.body.appendChild(document.createElement("div")), found = [];
  for (const { title, x, y, time, width } of asked) {
    box.style.width = `${width}px`;
    const series = [{ name: "points", k: 1 }];
    render(html`<${Chart} key=${title} title=${title} data=${[x, y]} time=${time} series=${series} />`, box);
    await new Promise((done) => setTimeout(done, 20));
    found.push(...words_().filter((one) => one.title === title));
  }
  return found;
}"""


@pytest.mark.long
@pytest.mark.parametrize("zone", ["UTC", "Europe/London", "Asia/Kathmandu"])
def test_a_chart_of_any_times_and_numbers_is_legible(server, tab, zone):
    rng = random.Random(zone)
    asked = []
    for k in range(120):
        time = k % 3 != 0
        span = 10 ** rng.uniform(-1, 9)  # in seconds, up to 30 years
        start = rng.uniform(0, 2e9) if time else rng.choice([0, rng.uniform(0, 1e9)])
        x = [start + span * i / 20 for i in range(21)]
        y = [10 ** rng.uniform(-3, 9) for _ in x]
        asked.append({"title": f"chart {k}", "x": x, "y": y, "time": time, "width": rng.randint(300, 900)})
    one = tab(server.url, timezone_id=zone)
    one.page.add_init_script(WATCHING)
    found = one.open("", "h1").evaluate(DRAWING, asked)
    assert len(found) == len(asked)
    for chart in found:
        check(chart)


@pytest.mark.long
@pytest.mark.parametrize(("width", "scale"), [(1280, 1), (390, 2), (900, 1.5)])
@pytest.mark.parametrize("over_time", [False, True])
def test_no_word_on_a_chart_is_cut_or_overlaps_another_word(server, tab, noisy, width, scale, over_time):
    page = opened(tab, server, noisy, width, scale)
    if over_time:
        page.get_by_label("Plot over time").check()
        page.wait_for_timeout(300)
    for chart in charts(page):
        check(chart)
    said = " ".join(word["text"] for chart in charts(page) for word in chart["words"])
    assert "finishing step" in said


def number(text):
    return float(text.replace(",", "").replace(" %", "").replace("K", "e3"))


@pytest.mark.long
def test_each_line_stays_between_the_ends_of_its_axis(client, server, tab, noisy):
    client.create_model("easy", kernel={"type": "rbf", "gamma": 1.0}, C=1, features={"type": "dense", "dim": 2})
    for k in range(20):
        client.learn("easy", examples_of(heaps(20, ["ham", "spam"], seed=k), f"a{k}-"))
    for model in (noisy, "easy"):
        page = opened(tab, server, model)
        for name in ("Accuracy", "Accuracy by source", "Log loss", "Points", "Duality gap", "Examples per second"):
            page.get_by_role("region", name=name, exact=True).get_by_text("Show as a table").click()
        for chart in charts(page):
            table = page.get_by_role("region", name=chart["title"], exact=True).locator("tbody tr td")
            values = [number(cell) for cell in table.all_inner_texts() if cell != "\u2013"]
            left = min(word["box"][2] for word in chart["words"] if word["text"][0].isdigit()) + 30
            ticks = [
                number(word["text"]) for word in chart["words"] if word["text"][0].isdigit() and word["box"][2] < left
            ]
            assert len(ticks) >= 2
            assert min(ticks) <= min(values) + 1e-9, (chart["title"], ticks)
            assert max(values) <= max(ticks) + 1e-9, (chart["title"], ticks)


@pytest.mark.parametrize("side", [8, 400, 1024])
def test_a_picture_of_every_allowed_size_is_drawn(server, tab, side):
    page = tab(server.url).open("", "h1")
    found = page.evaluate(
        """async (side) => {
          const { Example } = await import("./ui/example.js");
          const { html, render } = await import("./ui/vendor/htm-preact.js");
          const x = Array.from({ length: side * side }, (_, i) => (i === 0 ? 2 : i === 1 ? 1 : 0));
          const box = document.body.appendChild(document.createElement("div"));
          render(html`<${Example} x=${x} show=${{ image: [side, side] }} />`, box);
          const canvas = box.querySelector("canvas.picture");
          return [canvas.width, canvas.height, ...canvas.getContext("2d").getImageData(0, 0, 3, 1).data];
        }""",
        side,
    )
    assert found == [side, side, 0, 0, 0, 255, 127, 127, 127, 255, 255, 255, 255, 255]
