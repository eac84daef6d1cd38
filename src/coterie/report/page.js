"use strict";
(() => {
  const found = JSON.parse(document.getElementById("points").textContent);
  const $ = (id) => document.getElementById(id);

  const element = (tag, text, className) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text; // names are text, whatever they look like
    if (className) made.className = className;
    return made;
  };
  const digits = (value) => (value === null ? "none" : String(Number(value.toPrecision(3))));

  hints();
  follow();
  unfold();
  if (found.embedding) map(found);

  // Hints on cells and columns: what is too small to be written out.
  function hints() {
    const hint = $("hint");
    const textFor = (target) => {
      const tip = target.closest("[data-tip]");
      if (tip) return tip.dataset.tip;
      const cell = target.closest(".heat td");
      if (!cell || !cell.textContent) return null;
      const head = cell.closest("table").tHead.rows[0].cells[cell.cellIndex];
      return `${cell.parentElement.cells[0].textContent} × ${head.textContent}: ${cell.textContent}`;
    };
    document.addEventListener("pointerover", (event) => {
      const text = textFor(event.target);
      hint.hidden = !text;
      if (text) hint.textContent = text;
    });
    document.addEventListener("pointermove", (event) => {
      if (hint.hidden) return;
      const x = Math.min(event.clientX + 14, innerWidth - hint.offsetWidth - 8);
      const y = event.clientY + 18 + hint.offsetHeight > innerHeight ? event.clientY - hint.offsetHeight - 10 : event.clientY + 18;
      hint.style.transform = `translate(${Math.max(4, x)}px, ${y}px)`;
    });
    document.addEventListener("scroll", () => (hint.hidden = true), { passive: true, capture: true });
  }

  // On paper nothing can be opened.
  function unfold() {
    let closed = [];
    addEventListener("beforeprint", () => {
      closed = [...document.querySelectorAll("details:not([open])")];
      closed.forEach((part) => (part.open = true));
    });
    addEventListener("afterprint", () => closed.forEach((part) => (part.open = false)));
  }

  // The section that is being read is marked in the list of sections.
  function follow() {
    const links = new Map([...document.querySelectorAll("nav a")].map((a) => [a.hash.slice(1), a]));
    const watch = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) if (entry.isIntersecting) {
          links.forEach((a, id) => a.classList.toggle("here", id === entry.target.id));
        }
      },
      { rootMargin: "-20% 0px -75% 0px" },
    );
    links.forEach((_, id) => watch.observe($(id)));
  }

  function map({ embedding, views, palette, shapes, ramp, clusters }) {
    const canvas = $("canvas"), context = canvas.getContext("2d");
    const tip = $("tip"), plot = $("plot"), key = $("key");
    const paths = shapes.map((d) => new Path2D(d));
    const { x, y, cluster, confidence, rows, ids, columns, opinions, pictures } = embedding;
    const n = x.length;
    const visible = new Array(clusters).fill(true);
    const state = { by: "cluster", zoom: 1, left: 0, top: 0, at: -1, lit: -1, width: 0, height: 0, scale: [1, 1] };
    const order = shuffled(n); // so that no cluster always lies on top
    const places = labelPlaces();
    const ramp256 = Array.from({ length: 256 }, (_, i) => blend(i / 255));

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

    function blend(share) {
      const at = share * (ramp.length - 1), i = Math.min(Math.floor(at), ramp.length - 2), rest = at - i;
      const part = (hex, c) => parseInt(hex.slice(1 + 2 * c, 3 + 2 * c), 16);
      const mixed = [0, 1, 2].map((c) => Math.round(part(ramp[i], c) * (1 - rest) + part(ramp[i + 1], c) * rest));
      return `rgb(${mixed.join(",")})`;
    }

    function labelPlaces() {
      const members = Array.from({ length: clusters }, () => []);
      for (let i = 0; i < n; i++) members[cluster[i]].push(i);
      // The row with the nearest company: the number stands on the cluster even where its middle is empty.
      const densest = (list) => {
        const some = list.filter((_, i) => i % Math.ceil(list.length / 120) === 0);
        const reach = some.map((a) => some.map((b) => Math.hypot(x[a] - x[b], y[a] - y[b])).sort((p, q) => p - q)[some.length >> 2]);
        return some[reach.indexOf(Math.min(...reach))];
      };
      return members
        .map((list, c) => ({ c, size: list.length, list }))
        .filter((m) => m.size)
        .map(({ c, size, list }) => ({ c, size, row: densest(list) }))
        .sort((a, b) => b.size - a.size);
    }

    // -- places ---------------------------------------------------------------------------------------------------

    // Both axes fill the frame, as long as neither is stretched too far against the other.
    const spread = (axis) => Math.max(1e-6, Math.max(...axis) - Math.min(...axis));
    const middle = (axis) => (Math.max(...axis) + Math.min(...axis)) / 2;
    const box = { width: spread(x), height: spread(y), x: middle(x), y: middle(y) };
    const scales = () => {
      const wide = (state.width - 56) / box.width, high = (state.height - 56) / box.height, least = Math.min(wide, high);
      return [state.zoom * Math.min(wide, 1.35 * least), state.zoom * Math.min(high, 1.35 * least)];
    };
    const px = (i) => state.width / 2 + (x[i] - box.x) * state.scale[0] + state.left;
    const py = (i) => state.height / 2 - (y[i] - box.y) * state.scale[1] + state.top;
    const radius = () => (n > 1500 ? 2.6 : n > 400 ? 3.4 : 4.4) * Math.min(1.8, Math.sqrt(state.zoom)) * (state.width < 500 ? 0.85 : 1);

    // -- colours --------------------------------------------------------------------------------------------------

    function colouring() {
      if (state.by === "cluster") return (i) => palette[cluster[i] % palette.length];
      const column = state.by === "confidence" ? { kind: "number", values: confidence } : columns[Number(state.by)];
      const grey = css("--soft");
      if (column.kind === "name") {
        return (i) => (column.values[i] >= 0 && column.values[i] < palette.length ? palette[column.values[i]] : grey);
      }
      const [low, high] = range(column);
      return (i) => {
        const value = column.values[i];
        return value === null ? grey : ramp256[Math.round(255 * Math.min(1, Math.max(0, (value - low) / (high - low || 1))))];
      };
    }

    // A few outliers would leave all others in one colour: the ramp spans all but two percent of the values.
    function range(column) {
      if (column.values === confidence) return [0, 1];
      const sorted = column.values.filter((v) => v !== null).sort((a, b) => a - b);
      if (!sorted.length) return [0, 1];
      return [sorted[Math.floor(0.01 * (sorted.length - 1))], sorted[Math.ceil(0.99 * (sorted.length - 1))]];
    }

    function drawKey() {
      key.replaceChildren();
      key.hidden = state.by === "cluster";
      if (key.hidden) return;
      const column = state.by === "confidence" ? { kind: "number", values: confidence } : columns[Number(state.by)];
      if (column.kind === "number") {
        const [low, high] = range(column);
        const strip = element("div", undefined, "ramp"), ends = element("div", undefined, "ends");
        strip.style.background = `linear-gradient(90deg, ${ramp.join(",")})`;
        ends.append(element("span", digits(low)), element("span", digits(high)));
        key.append(strip, ends);
        return;
      }
      const list = element("ul");
      column.levels.slice(0, palette.length).forEach((level, i) => list.append(line(palette[i], level)));
      if (column.levels.length > palette.length) list.append(line(css("--soft"), `${column.levels.length - palette.length} more`));
      key.append(list);
    }

    function line(colour, text) {
      const item = element("li"), dot = element("i"), name = element("bdi", text);
      dot.style.background = colour;
      item.append(dot, name);
      return item;
    }

    const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

    // -- drawing --------------------------------------------------------------------------------------------------

    let waiting = 0;
    const draw = () => {
      if (!waiting) waiting = requestAnimationFrame(() => { waiting = 0; drawNow(); });
    };

    function drawNow() {
      const ratio = Math.min(3, devicePixelRatio || 1);
      canvas.width = Math.round(state.width * ratio);
      canvas.height = Math.round(state.height * ratio);
      const colour = colouring(), r = radius();
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      for (const i of order) {
        if (!visible[cluster[i]]) continue;
        context.globalAlpha = state.lit < 0 || state.lit === cluster[i] ? 0.82 : 0.1;
        context.fillStyle = colour(i);
        context.setTransform(r * ratio, 0, 0, r * ratio, px(i) * ratio, py(i) * ratio);
        context.fill(paths[Math.floor(cluster[i] / palette.length) % paths.length]);
      }
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.globalAlpha = 1;
      drawNumbers();
      if (state.at >= 0) {
        context.strokeStyle = css("--ink");
        context.lineWidth = 1.5;
        context.beginPath();
        context.arc(px(state.at), py(state.at), r + 4, 0, 2 * Math.PI);
        context.stroke();
      }
      canvas.dataset.drawn = String(visible.reduce((sum, on, c) => sum + (on ? counts[c] : 0), 0));
    }
    const counts = new Array(clusters).fill(0);
    cluster.forEach((c) => counts[c]++);

    function drawNumbers() {
      const taken = [];
      context.font = "600 12px system-ui, sans-serif";
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.lineJoin = "round";
      for (const { c, row } of places) {
        if (!visible[c] || (state.lit >= 0 && state.lit !== c)) continue;
        const cx = px(row), cy = py(row), half = 4 + 4 * String(c).length;
        if (taken.some((t) => Math.abs(t.cx - cx) < t.half + half && Math.abs(t.cy - cy) < 15)) continue;
        taken.push({ cx, cy, half });
        context.strokeStyle = css("--card");
        context.lineWidth = 4;
        context.strokeText(String(c), cx, cy);
        context.fillStyle = css("--ink");
        context.fillText(String(c), cx, cy);
      }
    }

    function resize() {
      const frame = plot.getBoundingClientRect();
      state.width = frame.width;
      state.height = frame.height;
      state.scale = scales();
      hide();
      draw();
    }

    // -- the row under the pointer --------------------------------------------------------------------------------

    function nearest(mx, my, reach) {
      let best = -1, least = reach * reach;
      for (let i = 0; i < n; i++) {
        if (!visible[cluster[i]]) continue;
        const square = (px(i) - mx) ** 2 + (py(i) - my) ** 2;
        if (square < least) [best, least] = [i, square];
      }
      return best;
    }

    function show(i) {
      if (i < 0) return hide();
      state.at = i;
      tip.replaceChildren();
      if (pictures) tip.append(tile(i));
      const name = element("strong");
      name.append(element("bdi", ids ? ids[i] : `row ${rows[i]}`));
      tip.append(name, element("div", `cluster ${cluster[i]}, confidence ${confidence[i].toFixed(2)}`));
      for (const column of columns) {
        const value = column.kind === "name" ? (column.values[i] < 0 ? "none" : column.levels[column.values[i]]) : digits(column.values[i]);
        const entry = element("div");
        entry.append(element("bdi", column.name), ": ", element("bdi", value));
        tip.append(entry);
      }
      if (opinions) {
        const others = views.flatMap((view, v) =>
          opinions[i][v] < 0 ? [`${view} is missing`] : opinions[i][v] === cluster[i] ? [] : [`${view} says ${opinions[i][v]}`]);
        tip.append(element("div", others.length ? others.slice(0, 8).join(", ") : "all views agree"));
      }
      tip.hidden = false;
      const left = px(i) + 14 + tip.offsetWidth > state.width ? px(i) - tip.offsetWidth - 14 : px(i) + 14;
      const top = Math.min(Math.max(6, py(i) - tip.offsetHeight / 2), state.height - tip.offsetHeight - 6);
      tip.style.left = `${Math.min(Math.max(6, left), Math.max(6, state.width - tip.offsetWidth - 6))}px`;
      tip.style.top = `${top}px`;
      draw();
    }

    function tile(i) {
      const size = Math.max(1, Math.round(56 / Math.max(pictures.width, pictures.height)));
      const made = element("div", undefined, "tile");
      const column = i % pictures.across, down = Math.floor(i / pictures.across);
      made.style.width = `${pictures.width * size}px`;
      made.style.height = `${pictures.height * size}px`;
      made.style.backgroundImage = `url(${pictures.picture})`;
      made.style.backgroundSize = `${pictures.width * size * pictures.across}px auto`;
      made.style.backgroundPosition = `-${column * pictures.width * size}px -${down * pictures.height * size}px`;
      return made;
    }

    function hide() {
      if (state.at >= 0) draw();
      state.at = -1;
      tip.hidden = true;
    }

    // -- zoom -----------------------------------------------------------------------------------------------------

    function zoomTo(zoom, mx = state.width / 2, my = state.height / 2) {
      const next = Math.min(40, Math.max(1, zoom)), factor = next / state.zoom;
      state.left = (state.left + state.width / 2 - mx) * factor + mx - state.width / 2;
      state.top = (state.top + state.height / 2 - my) * factor + my - state.height / 2;
      if (next === 1) state.left = state.top = 0;
      state.zoom = next;
      state.scale = scales();
      canvas.classList.toggle("zoomed", next > 1);
      hide();
      draw();
    }

    let drag = null;
    const offset = (event) => {
      const frame = canvas.getBoundingClientRect();
      return [event.clientX - frame.left, event.clientY - frame.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      show(nearest(...offset(event), event.pointerType === "mouse" ? 12 : 26));
      if (state.zoom > 1) {
        drag = { x: event.clientX - state.left, y: event.clientY - state.top };
        canvas.setPointerCapture(event.pointerId);
      }
    });
    canvas.addEventListener("pointermove", (event) => {
      if (drag) {
        state.left = event.clientX - drag.x;
        state.top = event.clientY - drag.y;
        hide();
        draw();
      } else if (event.pointerType === "mouse") show(nearest(...offset(event), 12));
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (drag = null));
    canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hide());
    canvas.addEventListener("dblclick", (event) => zoomTo(2 * state.zoom, ...offset(event)));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the wheel alone scrolls the page
      event.preventDefault();
      zoomTo(state.zoom * Math.exp(-event.deltaY / 150), ...offset(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") hide();
      if (event.key === "+" || event.key === "=") zoomTo(1.5 * state.zoom);
      if (event.key === "-") zoomTo(state.zoom / 1.5);
      if (!step || !visible.some((on, c) => on && counts[c])) return;
      event.preventDefault();
      let i = state.at;
      do i = (i + step + n) % n; while (!visible[cluster[i]]);
      show(i);
    });
    $("zoom-in").addEventListener("click", () => zoomTo(1.6 * state.zoom));
    $("zoom-out").addEventListener("click", () => zoomTo(state.zoom / 1.6));
    $("zoom-reset").addEventListener("click", () => zoomTo(1));

    // -- the legend -----------------------------------------------------------------------------------------------

    const buttons = [...document.querySelectorAll("#legend button")];
    const setVisible = (c, on) => {
      visible[c] = on;
      buttons[c].setAttribute("aria-pressed", String(on));
    };
    const light = (c) => { state.lit = c >= 0 && visible[c] ? c : -1; draw(); };
    buttons.forEach((button, c) => {
      button.addEventListener("click", () => { setVisible(c, !visible[c]); hide(); light(c); });
      button.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && light(c));
      button.addEventListener("pointerleave", () => light(-1));
      button.addEventListener("focus", () => button.matches(":focus-visible") && light(c));
      button.addEventListener("blur", () => light(-1));
    });
    const setAll = (on) => { buttons.forEach((_, c) => setVisible(c, on)); hide(); draw(); };
    $("show-all").addEventListener("click", () => setAll(true));
    $("show-none").addEventListener("click", () => setAll(false));
    $("colour-by").addEventListener("change", (event) => {
      state.by = event.target.value;
      drawKey();
      draw();
    });

    // -- paper and light ------------------------------------------------------------------------------------------

    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    const forPrint = (on) => () => {
      document.documentElement.classList.toggle("printing", on);
      hide();
      drawNow();
    };
    addEventListener("beforeprint", forPrint(true));
    addEventListener("afterprint", forPrint(false));
    new ResizeObserver(resize).observe(plot);
    resize();
  }
})();
