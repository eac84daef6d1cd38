// What colours say: clusters, or a column of numbers or names.

const ramp256 = Array.from({ length: 256 }, (_, i) => blend(i / 255));

function blend(share) {
  const ramp = report.ramp;
  const at = share * (ramp.length - 1), i = Math.min(Math.floor(at), ramp.length - 2), rest = at - i;
  const part = (hex, c) => parseInt(hex.slice(1 + 2 * c, 3 + 2 * c), 16);
  const mixed = [0, 1, 2].map((c) => Math.round(part(ramp[i], c) * (1 - rest) + part(ramp[i + 1], c) * rest));
  return `rgb(${mixed.join(",")})`;
}

function columnOf(by) {
  if (by === "confidence") return { kind: "number", values: rows.confidence, fixed: [0, 1] };
  const [kind, number] = by.split(" ");
  return (kind === "derived" ? rows.derived : rows.columns)[Number(number)];
}

// A few outliers would leave all others in one colour: the ramp spans all but two percent of the values.
function rangeOf(column) {
  if (column.fixed) return column.fixed;
  const sorted = column.values.filter((v) => v !== null).sort((a, b) => a - b);
  if (!sorted.length) return [0, 1];
  return [sorted[Math.floor(0.01 * (sorted.length - 1))], sorted[Math.ceil(0.99 * (sorted.length - 1))]];
}

// Returns the colour of every row.
function rowColours() {
  if (state.by === "cluster") return rows.cluster.map(colourOf);
  const column = columnOf(state.by), grey = css("--soft"), palette = report.palette;
  if (column.kind === "name") return column.values.map((v) => (v >= 0 && v < palette.length ? palette[v] : grey));
  const [low, high] = rangeOf(column);
  return column.values.map((value) =>
    value === null ? grey : ramp256[Math.round(255 * Math.min(1, Math.max(0, (value - low) / (high - low || 1))))]);
}

function key() {
  const box = $("key"), palette = report.palette;
  function draw() {
    box.replaceChildren();
    box.hidden = state.by === "cluster";
    if (box.hidden) return;
    const column = columnOf(state.by);
    if (column.kind === "number") {
      const [low, high] = rangeOf(column);
      const strip = element("div", undefined, "ramp"), ends = element("div", undefined, "ends");
      strip.style.background = `linear-gradient(90deg, ${report.ramp.join(",")})`;
      ends.append(element("span", digits(low)), element("span", digits(high)));
      box.append(strip, ends);
      return;
    }
    const list = element("ul");
    column.levels.slice(0, palette.length).forEach((level, i) => {
      const item = line(palette[i], level);
      item.addEventListener("pointerenter", () => light((row) => column.values[row] === i));
      item.addEventListener("pointerleave", () => light(null));
      list.append(item);
    });
    if (column.levels.length > palette.length) list.append(line(css("--soft"), `${column.levels.length - palette.length} more`));
    box.append(list);
  }
  function line(colour, text) {
    const item = element("li"), dot = element("i"), name = element("bdi", text);
    dot.style.background = colour;
    item.append(dot, name);
    return item;
  }
  $("colour-by").addEventListener("change", (event) => {
    state.by = event.target.value;
    tell("colours");
  });
  on("colours", () => {
    $("colour-by").value = state.by;
    draw();
  });
}

// The list of clusters beside the map, and every place of the page that stands for a cluster.
function legend() {
  const buttons = all("#legend button");
  const setVisible = (c, shown) => {
    state.visible[c] = shown;
    buttons[c].setAttribute("aria-pressed", String(shown));
  };
  buttons.forEach((button, c) => {
    button.addEventListener("click", () => {
      setVisible(c, !state.visible[c]);
      tell("visible");
      lightCluster(c);
    });
    button.addEventListener("focus", () => button.matches(":focus-visible") && lightCluster(c));
    button.addEventListener("blur", () => lightCluster(null));
  });
  for (const part of all("#legend button, .card, .sizes li, .leaves li, .flow, .matched")) {
    part.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && lightCluster(Number(part.dataset.cluster)));
    part.addEventListener("pointerleave", () => lightCluster(null));
  }
  const setAll = (shown) => {
    buttons.forEach((_, c) => setVisible(c, shown));
    tell("visible");
  };
  $("show-all").addEventListener("click", () => setAll(true));
  $("show-none").addEventListener("click", () => setAll(false));
  on("colours", () => {
    for (const part of all("#legend button, .leaves li")) {
      part.querySelector("use").setAttribute("fill", colourOf(Number(part.dataset.cluster)));
    }
  });
}
