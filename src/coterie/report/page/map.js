// The map: rows as small pictures of marks on a canvas, which can be moved, zoomed and pointed at.

function map() {
  const { x, y, cluster } = rows;
  const canvas = $("canvas"), context = canvas.getContext("2d");
  const tip = $("tip"), plot = $("plot");
  const paths = report.shapes.map((d) => new Path2D(d));
  const view = { zoom: 1, left: 0, top: 0, width: 0, height: 0, scale: [1, 1] };
  const order = shuffled(n); // so that no cluster always lies on top
  const spots = labelSpots();
  const counts = new Array(K).fill(0);
  cluster.forEach((c) => counts[c]++);
  const outline = { path: null }; // of the selection that is being drawn

  function shuffled(count) {
    const list = Array.from({ length: count }, (_, i) => i);
    let seed = 1;
    for (let i = count - 1; i > 0; i--) {
      seed = (seed * 48271) % 2147483647;
      const j = seed % (i + 1);
      [list[i], list[j]] = [list[j], list[i]];
    }
    return list;
  }

  function labelSpots() {
    const members = Array.from({ length: K }, () => []);
    for (let i = 0; i < n; i++) members[cluster[i]].push(i);
    // The row with the nearest company: the number stands on the cluster even where its middle is empty.
    const densest = (list) => {
      const some = list.filter((_, i) => i % Math.ceil(list.length / 80) === 0);
      const reach = some.map((a) => some.map((b) => Math.hypot(x[a] - x[b], y[a] - y[b])).sort((p, q) => p - q)[some.length >> 2]);
      return some[reach.indexOf(Math.min(...reach))];
    };
    return members
      .map((list, c) => ({ c, list }))
      .filter(({ list }) => list.length)
      .sort((a, b) => b.list.length - a.list.length)
      .map(({ c, list }) => ({ c, row: densest(list) }));
  }

  // -- where rows are -------------------------------------------------------------------------------------------

  // Both axes fill the frame, as long as neither is stretched too far against the other.
  const least = (axis) => axis.reduce((a, b) => Math.min(a, b), Infinity);
  const most = (axis) => axis.reduce((a, b) => Math.max(a, b), -Infinity);
  const spread = (axis) => Math.max(1e-6, most(axis) - least(axis));
  const middle = (axis) => (most(axis) + least(axis)) / 2;
  const box = { width: spread(x), height: spread(y), x: middle(x), y: middle(y) };
  const scales = () => {
    const wide = (view.width - 56) / box.width, high = (view.height - 56) / box.height, low = Math.min(wide, high);
    return [view.zoom * Math.min(wide, 1.35 * low), view.zoom * Math.min(high, 1.35 * low)];
  };
  const px = (i) => view.width / 2 + (x[i] - box.x) * view.scale[0] + view.left;
  const py = (i) => view.height / 2 - (y[i] - box.y) * view.scale[1] + view.top;
  const radius = () => (n > 6000 ? 2.2 : n > 1500 ? 2.6 : n > 400 ? 3.4 : 4.4) * Math.min(1.8, Math.sqrt(view.zoom)) * (view.width < 500 ? 0.85 : 1);

  // -- drawing --------------------------------------------------------------------------------------------------

  // A mark is drawn once for a colour and a shape, and then copied: many times quicker than filling paths.
  const stamps = { made: new Map(), size: 0, rows: null };
  function stamp(colour, shape) {
    const name = `${colour} ${shape}`;
    let made = stamps.made.get(name);
    if (!made) {
      const r = stamps.size, side = Math.ceil(2.4 * r) + 2;
      made = document.createElement("canvas");
      made.width = made.height = side;
      const pen = made.getContext("2d");
      pen.setTransform(r, 0, 0, r, side / 2, side / 2);
      pen.fillStyle = colour;
      pen.fill(paths[shape]);
      stamps.made.set(name, made);
    }
    return made;
  }
  function stampRows(size) {
    if (stamps.rows && stamps.size === size) return;
    stamps.made.clear();
    stamps.size = size;
    stamps.rows = rowColours().map((colour, i) => stamp(colour, shapeOf(cluster[i])));
  }

  let waiting = 0;
  const draw = () => {
    if (!waiting) waiting = requestAnimationFrame(() => { waiting = 0; drawNow(); });
  };

  function drawNow() {
    const ratio = Math.min(3, devicePixelRatio || 1);
    const wide = Math.round(view.width * ratio), high = Math.round(view.height * ratio);
    if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
    stampRows(Math.round(10 * radius() * ratio) / 10);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, wide, high);
    const chosen = state.lit || (state.selected.size ? (i) => state.selected.has(i) : null);
    if (!chosen) drawRows(context, ratio, 0.82, () => true);
    else {
      drawDimmed(ratio, (i) => !chosen(i));
      drawRows(context, ratio, 0.95, chosen);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.globalAlpha = 1;
    drawNames(chosen);
    if (state.at >= 0) ring(state.at);
    if (outline.path) drawOutline();
    canvas.dataset.drawn = String(state.visible.reduce((sum, shown, c) => sum + (shown ? counts[c] : 0), 0));
  }

  function drawRows(pen, ratio, alpha, test) {
    pen.globalAlpha = alpha;
    for (const i of order) {
      if (!state.visible[cluster[i]] || !test(i)) continue;
      const picture = stamps.rows[i], half = picture.width / 2;
      const left = px(i) * ratio - half, top = py(i) * ratio - half;
      if (left > canvas.width || top > canvas.height || left < -2 * half || top < -2 * half) continue;
      pen.drawImage(picture, left, top);
    }
  }

  // On a sheet of their own, which is laid on the map as a whole: faint rows on top of each other would add up.
  const sheet = document.createElement("canvas"), sheetPen = sheet.getContext("2d");
  function drawDimmed(ratio, test) {
    [sheet.width, sheet.height] = [canvas.width, canvas.height]; // which also clears it
    drawRows(sheetPen, ratio, 1, test);
    context.globalAlpha = 0.16;
    context.drawImage(sheet, 0, 0);
  }

  // Names stand on a halo of the paper's colour; those that would cover a larger cluster's name are left out.
  function drawNames(chosen) {
    const taken = [], halo = css("--card"), ink = css("--ink");
    const held = new Set([...state.selected].map((i) => cluster[i])); // clusters without a selected row step back
    context.font = "600 12px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineJoin = "round";
    context.lineWidth = 5;
    context.strokeStyle = halo;
    context.fillStyle = ink;
    for (const { c, row } of spots) {
      if (!state.visible[c] || (state.lit && chosen && !chosen(row))) continue;
      const name = nameOf(c).length > 20 ? `${nameOf(c).slice(0, 19)}…` : nameOf(c);
      const cx = px(row), cy = py(row), half = 4 + context.measureText(name).width / 2;
      if (taken.some((t) => Math.abs(t.cx - cx) < t.half + half && Math.abs(t.cy - cy) < 15)) continue;
      taken.push({ cx, cy, half });
      context.globalAlpha = held.size && !held.has(c) && !state.lit ? 0.35 : 1;
      context.strokeText(name, cx, cy);
      context.fillText(name, cx, cy);
    }
    context.globalAlpha = 1;
  }

  function ring(i) {
    context.strokeStyle = css("--ink");
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(px(i), py(i), radius() + 4, 0, 2 * Math.PI);
    context.stroke();
  }

  function drawOutline() {
    context.beginPath();
    outline.path.forEach(([left, top], i) => (i ? context.lineTo(left, top) : context.moveTo(left, top)));
    context.closePath();
    context.globalAlpha = 0.12;
    context.fillStyle = css("--accent");
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = css("--accent");
    context.lineWidth = 1.5;
    context.stroke();
  }

  function resize() {
    view.width = canvas.clientWidth;
    view.height = canvas.clientHeight;
    view.scale = scales();
    hide();
    draw();
  }

  // -- the row under the pointer --------------------------------------------------------------------------------

  function nearest(mx, my, reach) {
    let best = -1, least = reach * reach;
    for (let i = 0; i < n; i++) {
      if (!state.visible[cluster[i]]) continue;
      const square = (px(i) - mx) ** 2 + (py(i) - my) ** 2;
      if (square < least) [best, least] = [i, square];
    }
    return best;
  }

  function show(i) {
    if (i < 0) return hide();
    if (i === state.at && !tip.hidden) return;
    state.at = i;
    describeRow(tip, i);
    tip.hidden = false;
    const left = px(i) + 14 + tip.offsetWidth > view.width ? px(i) - tip.offsetWidth - 14 : px(i) + 14;
    const top = Math.min(Math.max(6, py(i) - tip.offsetHeight / 2), view.height - tip.offsetHeight - 6);
    tip.style.left = `${Math.min(Math.max(6, left), Math.max(6, view.width - tip.offsetWidth - 6))}px`;
    tip.style.top = `${top}px`;
    draw();
  }

  function hide() {
    if (state.at >= 0) draw();
    state.at = -1;
    tip.hidden = true;
  }

  // A row is shown from elsewhere on the page: the map comes into sight, and moves if the row is outside of it.
  function locate(i) {
    if (!state.visible[cluster[i]]) {
      state.visible[cluster[i]] = true;
      all("#legend button")[cluster[i]].setAttribute("aria-pressed", "true");
    }
    if (px(i) < 0 || px(i) > view.width || py(i) < 0 || py(i) > view.height) {
      view.left += view.width / 2 - px(i);
      view.top += view.height / 2 - py(i);
    }
    plot.scrollIntoView({ block: "nearest" });
    show(i);
  }

  // -- zoom and move --------------------------------------------------------------------------------------------

  function zoomTo(zoom, mx = view.width / 2, my = view.height / 2) {
    const next = Math.min(40, Math.max(1, zoom)), factor = next / view.zoom;
    view.left = (view.left + view.width / 2 - mx) * factor + mx - view.width / 2;
    view.top = (view.top + view.height / 2 - my) * factor + my - view.height / 2;
    if (next === 1) view.left = view.top = 0;
    view.zoom = next;
    view.scale = scales();
    canvas.classList.toggle("zoomed", next > 1);
    hide();
    draw();
  }

  function moveTo(left, top) {
    view.left = left;
    view.top = top;
    hide();
    draw();
  }

  canvas.addEventListener("dblclick", (event) => zoomTo(2 * view.zoom, event.offsetX, event.offsetY));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the wheel alone scrolls the page
    event.preventDefault();
    zoomTo(view.zoom * Math.exp(-event.deltaY / 150), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      if (tip.hidden) select([]);
      hide();
    }
    if (event.key === "+" || event.key === "=") zoomTo(1.5 * view.zoom);
    if (event.key === "-") zoomTo(view.zoom / 1.5);
    if (event.key === "0") zoomTo(1);
    if (event.key === "Enter" && state.at >= 0) select([state.at], "toggle");
    if (event.key.toLowerCase() === "c" && state.at >= 0 && !event.ctrlKey && !event.metaKey) {
      select(rowsOfCluster((c) => c === cluster[state.at]), event.shiftKey ? "add" : "replace");
    }
    if (!step || !state.visible.some((shown, c) => shown && counts[c])) return;
    event.preventDefault();
    let i = state.at;
    do i = (i + step + n) % n; while (!state.visible[cluster[i]]);
    show(i);
  });
  $("zoom-in").addEventListener("click", () => zoomTo(1.6 * view.zoom));
  $("zoom-out").addEventListener("click", () => zoomTo(view.zoom / 1.6));
  $("zoom-reset").addEventListener("click", () => zoomTo(1));

  // -- what changes elsewhere -----------------------------------------------------------------------------------

  const recolour = () => {
    stamps.rows = null;
    draw();
  };
  on("colours", recolour);
  on("light", draw);
  on("selection", draw);
  on("names", draw);
  on("visible", () => { hide(); draw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  const forPrint = (printing) => () => {
    document.documentElement.classList.toggle("printing", printing);
    hide();
    stamps.rows = null;
    drawNow();
  };
  addEventListener("beforeprint", forPrint(true));
  addEventListener("afterprint", forPrint(false));
  new ResizeObserver(resize).observe(plot);
  resize();

  return { canvas, view, px, py, draw, show, hide, nearest, locate, moveTo, outline };
}

// What is known of a row, beside the pointer.
function describeRow(tip, i) {
  tip.replaceChildren();
  if (rows.pictures) tip.append(tile(i));
  const name = element("strong"), c = rows.cluster[i];
  name.append(element("bdi", idOf(i)));
  const where = element("div", `cluster ${c}`);
  if (state.names[c]) where.append(" (", element("bdi", state.names[c]), ")");
  where.append(`, confidence ${rows.confidence[i].toFixed(2)}`);
  tip.append(name, where);
  if (rows.texts && rows.texts[i]) tip.append(element("div", rows.texts[i], "text"));
  for (const column of columnsOf()) {
    const entry = element("div");
    entry.append(element("bdi", column.name), ": ", element("bdi", valueOf(column, i)));
    tip.append(entry);
  }
  if (!rows.opinions) return;
  const said = rows.opinions[i], others = report.views.flatMap((view, v) =>
    said[v] < 0 ? [`${view} is missing`] : said[v] === c ? [] : [`${view} says ${said[v]}`]);
  tip.append(element("div", others.length ? others.slice(0, 8).join(", ") : "all views agree"));
}
