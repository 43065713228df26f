// The viewer: reads the header and the data of the page, shows the runs. `window.geonhViewer` is its state, for tests
// and for pages that embed it.
(async () => {
  const $ = geonhElement, header = JSON.parse($("header").textContent);
  const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4, 8, 16], ARROW_COLOURS = ["#CC3311", "#AA3377", "#228833"];
  let array, T;
  try {
    ({ array, T } = await geonhOpened());
  } catch (error) {
    return geonhWarn("This browser cannot run the page: " + error.message);
  }

  // --- runs ------------------------------------------------------------------------------------------------------
  const several = header.runs.length > 1;
  const runs = header.runs.map((run, index) => ({
    ...run,
    index,
    t: array(run.t),
    colour: geonhColour(index),
    bodies: run.bodies.map((body) => ({
      ...body, x: array(body.x), q: array(body.q), scale: body.scale && array(body.scale),
    })),
    modes: run.modes && { ...run.modes, at: array(run.modes.at) },
    arrows: run.arrows.map((arrow) => arrow && { ...arrow, values: array(arrow.values) }),
    panels: run.panels.map((panel) => ({
      ...panel, curves: panel.curves.map((c) => ({ ...c, t: array(c.t), y: array(c.y) })),
    })),
  }));
  const begin = Math.min(...runs.map((r) => r.t0));
  const end = Math.max(...runs.map((r) => r.t0 + r.t[r.t.length - 1]));
  const low = [0, 1, 2].map((i) => Math.min(...runs.map((r) => r.low[i])));
  const high = [0, 1, 2].map((i) => Math.max(...runs.map((r) => r.high[i])));
  const size = Math.hypot(...low.map((v, i) => high[i] - v)) || 1;

  const state = {
    time: begin, playing: false, speed: 1, loop: true, camera: "free", traces: true, force: true, momentum: false,
    side: several && header.sideBySide, curves: true, dark: matchMedia("(prefers-color-scheme: dark)").matches,
  };

  /** Frame before time t, and how far it is to the next. */
  function frame(run, t) {
    const ts = run.t, s = t - run.t0;
    let a = 0, b = ts.length - 1;
    if (s <= 0 || b === 0) return [0, 0];
    if (s >= ts[b]) return [b, 0];
    while (b - a > 1) {
      const m = (a + b) >> 1;
      if (ts[m] <= s) a = m; else b = m;
    }
    return [a, (s - ts[a]) / (ts[b] - ts[a])];
  }
  const row = (values, i, width) => Math.min(i, values.length / width - 1) * width;
  function place(body, i, f, position, quaternion) {
    const a = row(body.x, i, 3), b = row(body.x, i + 1, 3);
    position.set(...[0, 1, 2].map((k) => body.x[a + k] * (1 - f) + body.x[b + k] * f));
    const p = row(body.q, i, 4), q = row(body.q, i + 1, 4);
    quaternion.set(body.q[p], body.q[p + 1], body.q[p + 2], body.q[p + 3]).normalize();
    other.set(body.q[q], body.q[q + 1], body.q[q + 2], body.q[q + 3]).normalize();
    quaternion.slerp(other, f);
  }
  const other = new T.Quaternion();
  const vector = (run, arrow, i, f) => [0, 1, 2].map((k) => {
    const a = row(arrow.values, i, 3) + k, b = row(arrow.values, i + 1, 3) + k;
    return arrow.of * (arrow.values[a] * (1 - f) + arrow.values[b] * f);
  });

  // --- scene -----------------------------------------------------------------------------------------------------
  const bodySize = geonhBodySize(runs[0].bodies, array), small = geonhIsSmall(bodySize, size);
  if (small) state.camera = "follow";
  const reach = small ? 2 * bodySize : Math.min(Math.max(2 * bodySize, 0.12 * size), 0.6 * size); // longest arrow
  const near = small ? 9 * bodySize : Math.min(size, Math.max(6 * bodySize, 0.3 * size));
  const cells = () => (state.side ? runs.length : 1);
  let view;
  try {
    view = new GeonhView(T, $("scene"), array, { low, high, size, near, cells, state, anchor: () => anchor(runs[0]) });
  } catch (error) {
    return geonhWarn("This browser shows no WebGL, which the view in three dimensions needs.");
  }
  const { scene, mesh, arrowOf, point } = view;

  for (const run of runs) {
    run.group = new T.Group();
    scene.add(run.group);
    for (const body of run.bodies) {
      body.object = new T.Group();
      body.object.name = body.name;
      body.ofModes = (run.modes && !several && !body.ground ? run.modes.colours : [body.colour]).map((colour) => {
        const made = new T.Group(); // the shape in the colour of a mode
        for (const part of body.parts) made.add(mesh(part, { ...body, colour }, several && run.colour));
        body.object.add(made);
        return made;
      });
      run.group.add(body.object);
    }
    run.paths = run.traces.map(([index, trace]) => {
      const body = run.bodies[index], n = run.t.length, points = new Float32Array(3 * n);
      const at = new T.Vector3(), turn = new T.Quaternion(), mark = new T.Vector3();
      for (let i = 0; i < n; i++) {
        place(body, i, 0, at, turn);
        mark.set(...trace).applyQuaternion(turn).add(at).toArray(points, 3 * i);
      }
      const shape = new T.LineGeometry();
      shape.setPositions(n > 1 ? points : new Float32Array([...points, ...points]));
      const material = new T.LineMaterial({ color: several ? run.colour : body.parts.length ? body.colour : geonhColour(0), linewidth: 2 });
      const line = new T.Line2(shape, material);
      line.frustumCulled = false;
      run.group.add(line);
      return { line, shape, material };
    });
    run.pointers = run.arrows.map((arrow, k) => {
      if (!arrow) return null;
      const made = arrowOf(ARROW_COLOURS[k]);
      run.group.add(made);
      return made;
    });
  }
  const largest = [0, 1, 2].map((k) => Math.max(...runs.map((run) => run.arrows[k] ? run.arrows[k].max : 0)));

  /** Put everything where it is at the time. */
  function pose() {
    for (const run of runs) {
      const [i, f] = frame(run, state.time);
      for (const body of run.bodies) {
        place(body, i, f, body.object.position, body.object.quaternion);
        if (body.ofModes.length > 1) body.ofModes.forEach((made, k) => { made.visible = k === run.modes.at[i]; });
        if (body.scale) {
          const a = row(body.scale, i, 3), b = row(body.scale, i + 1, 3);
          body.object.scale.set(...[0, 1, 2].map((k) => body.scale[a + k] * (1 - f) + body.scale[b + k] * f));
        }
      }
      for (const path of run.paths) {
        path.line.visible = state.traces && i > 0;
        path.shape.instanceCount = i;
      }
      const from = run.about >= 0 ? run.bodies[run.about].object.position : anchor(run);
      run.pointers.forEach((arrow, k) => {
        if (!arrow) return;
        arrow.visible = k === 2 ? state.momentum : state.force;
        if (!arrow.visible) return;
        const v = vector(run, run.arrows[k], i, f);
        point(arrow, from, v, Math.hypot(...v) / largest[k] * reach, reach);
      });
    }
  }
  const anchor = (run) => (run.bodies.find((b) => !b.ground && b.parts.some((p) => p.faces.n)) || run.bodies[0]).object.position;

  // --- drawing ---------------------------------------------------------------------------------------------------
  function render() {
    pose();
    const drawn = view.render((k, width, height) => {
      for (const run of runs) {
        run.group.visible = !state.side || run === runs[k];
        for (const body of run.bodies) if (body.ground) body.object.visible = state.side || run === runs[0];
        for (const path of run.paths) path.material.resolution.set(width, height);
      }
    });
    if (!drawn) return;
    drawCursor();
    const { second } = runs[0];
    $("scrub").value = state.time;
    $("scrub").setAttribute("aria-valuetext", `${state.time.toFixed(3)} ${second}`);
    $("clock").textContent = `${state.time.toFixed(2)} ${second} / ${end.toFixed(2)} ${second}`;
  }
  const labels = () => view.label((state.side ? runs : []).map(({ name, colour }) => ({ text: name, colour })));
  function legend() {
    const rows = several ? runs.map((run) => [run.colour, run.name]) : [];
    runs[0].arrows.forEach((_, k) => {
      const arrow = runs.map((run) => run.arrows[k]).find(Boolean);
      if (arrow && (k === 2 ? state.momentum : state.force))
        rows.push([ARROW_COLOURS[k], `${arrow.name}, at most ${largest[k].toPrecision(3)} ${arrow.unit}`]);
    });
    $("legend").replaceChildren(...rows.map(([colour, text]) => {
      const line = document.createElement("div"), dash = document.createElement("i");
      dash.style.background = colour;
      line.append(dash, text);
      return line;
    }));
  }

  // --- modes -----------------------------------------------------------------------------------------------------
  function timeline(run) {
    const { keys, canvas } = geonhFigure($("plots"), several ? `mode, ${run.name}` : "mode", ""), strip = document.createElement("div");
    canvas.replaceWith(strip);
    keys.parentElement.classList.add("timeline");
    strip.setAttribute("role", "img");
    strip.setAttribute("aria-label", "modes against time");
    for (const [from, to, mode] of run.modes.spans) {
      const span = document.createElement("i"), offset = run.t0 - begin;
      span.style.left = `${(100 * (Math.min(from, to) + offset)) / (end - begin)}%`;
      span.style.width = `${(100 * Math.abs(to - from)) / (end - begin)}%`;
      span.style.background = run.modes.colours[mode];
      span.title = run.modes.names[mode];
      strip.append(span);
    }
    keys.append(...[...new Set(run.modes.spans.map((span) => span[2]))].map((k) => geonhKey(run.modes.names[k], run.modes.colours[k], [])));
  }

  // --- curves ----------------------------------------------------------------------------------------------------
  const titles = [...new Set(runs.flatMap((run) => run.panels.map((p) => p.title)))];
  const plots = titles.map((title) => {
    const found = runs.flatMap((run) => run.panels.filter((p) => p.title === title).map((panel) => ({ run, panel })));
    const { unit, log } = found[0].panel, { canvas, keys } = geonhFigure($("plots"), title, unit);
    const names = [...new Set(found.flatMap(({ panel }) => panel.curves.map((curve) => curve.name)))];
    const dash = (name) => geonhDash(names.indexOf(name));
    const colour = (run, name) => (several ? run.colour : geonhColour(names.indexOf(name)));
    const curves = found.flatMap(({ run, panel }) => panel.curves.map((curve) => (
      { ...curve, colour: colour(run, curve.name), dash: dash(curve.name) })));
    // Of several runs, the dashes tell the curves apart, the colours the runs.
    keys.append(...names.map((name) => geonhKey(name, several ? "currentColor" : colour(runs[0], name), dash(name))));
    const seek = (event) => {
      const box = canvas.getBoundingClientRect(), width = box.width - GEONH_LEFT - GEONH_RIGHT;
      setTime(begin + (end - begin) * Math.min(1, Math.max(0, (event.clientX - box.left - GEONH_LEFT) / width)));
    };
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); seek(event); });
    canvas.addEventListener("pointermove", (event) => { if (event.buttons) seek(event); });
    return { canvas, curves, log, still: document.createElement("canvas") };
  });
  runs.filter((run) => run.modes).forEach(timeline);
  function drawCurves() {
    const shades = runs.filter((run) => run.spoiled !== null).map((run) => run.spoiled), { second } = runs[0];
    for (const plot of plots) {
      const w = plot.canvas.clientWidth, h = plot.canvas.clientHeight;
      plot.canvas.width = w * devicePixelRatio;
      plot.canvas.height = h * devicePixelRatio;
      plot.x = geonhDraw(plot.still, w, h, { curves: plot.curves, log: plot.log, begin, end, second, shades });
    }
  }
  function drawCursor() {
    if (!state.curves) return;
    for (const plot of plots) {
      if (!plot.x) continue;
      const g = plot.canvas.getContext("2d"), ratio = devicePixelRatio, x = plot.x(state.time) * ratio;
      g.clearRect(0, 0, plot.canvas.width, plot.canvas.height);
      g.drawImage(plot.still, 0, 0);
      g.strokeStyle = geonhCss("--ink");
      g.lineWidth = ratio;
      g.beginPath(); g.moveTo(x, 2); g.lineTo(x, plot.canvas.height - 16 * ratio); g.stroke();
    }
  }

  // --- what the user does ------------------------------------------------------------------------------------------
  function setTime(t) {
    state.time = Math.min(end, Math.max(begin, t));
    view.dirty = true;
  }
  function step(n) {
    const run = runs.reduce((a, b) => (b.t.length > a.t.length ? b : a));
    const [i, f] = frame(run, state.time + 1e-9 * (end - begin));
    const j = Math.min(run.t.length - 1, Math.max(0, i + n + (n < 0 && f > 1e-6 ? 1 : 0)));
    setPlaying(false);
    setTime(run.t0 + run.t[j]);
  }
  function setPlaying(on) {
    state.playing = on && end > begin;
    if (state.playing && state.time >= end) state.time = begin;
    geonhPlaying(state.playing, ["Pause", "Play"]);
    view.dirty = true;
  }
  function set(name, value) {
    state[name] = value;
    apply();
    if (["camera", "side"].includes(name)) view.aim();
  }
  const SWITCHES = ["loop", "traces", "force", "momentum", "side", "curves"];
  function apply() {
    view.apply();
    for (const name of SWITCHES) $(name).setAttribute("aria-pressed", state[name]);
    $("plots").hidden = !state.curves;
    legend();
    labels();
    resize();
  }
  function resize() {
    view.resize();
    if (state.curves) drawCurves();
  }
  const turned = (name) => () => set(name, !state[name]);
  const setSide = (on) => several && set("side", on);
  const keys = {
    " ": () => setPlaying(!state.playing),
    ArrowLeft: (e) => step(e.shiftKey ? -10 : -1),
    ArrowRight: (e) => step(e.shiftKey ? 10 : 1),
    Home: () => setTime(begin),
    End: () => setTime(end),
    r: () => view.aim(),
    l: turned("loop"),
    f: turned("force"),
    m: turned("momentum"),
    s: () => setSide(!state.side),
    p: turned("curves"),
  };
  const buttons = { loop: keys.l, force: keys.f, momentum: keys.m, side: keys.s, curves: keys.p };
  geonhControls({ state, set, speeds: SPEEDS, keys, buttons, resize, silent: ["SELECT"] });
  $("scrub").min = begin;
  $("scrub").max = end;
  $("scrub").addEventListener("input", (e) => { setPlaying(false); setTime(Number(e.target.value)); });
  new ResizeObserver(() => { labels(); resize(); }).observe($("scene"));

  // --- begin -------------------------------------------------------------------------------------------------------
  $("title").textContent = header.title;
  $("facts").textContent = several
    ? runs.map((run) => `${run.name}: ${run.facts}`).filter((text, i, all) => i < 4 && all.indexOf(text) === i).join("  ·  ")
    : `${runs[0].method}, ${runs[0].facts}`;
  const warnings = runs.filter((run) => run.warning).map((run) => (several ? `${run.name}: ` : "") + run.warning);
  if (warnings.length) geonhWarn(warnings.join("; "));
  $("side").hidden = !several;
  $("force").hidden = !runs.some((run) => run.arrows[0] || run.arrows[1]);
  $("momentum").hidden = !runs.some((run) => run.arrows[2]);
  apply();
  pose();
  view.aim();
  view.loop((passed) => {
    if (!state.playing) return;
    const next = state.time + passed * state.speed;
    if (next < end) setTime(next);
    else if (state.loop) setTime(begin);
    else { setTime(end); setPlaying(false); }
  }, render);

  /** Where a body's point (the origin) is in the scene: [x, y, z]. */
  function position(name, run = 0, at = [0, 0, 0]) {
    pose();
    const object = runs[run].bodies.find((body) => body.name === name).object;
    object.updateMatrixWorld(true);
    return object.localToWorld(new T.Vector3(...at)).toArray();
  }
  window.geonhViewer = { state, runs: header.runs, begin, end, setTime, setPlaying, set, setSide, position, ready: true };
})();
