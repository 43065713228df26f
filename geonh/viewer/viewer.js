// The viewer: reads the header and the data of the page, shows the runs. `window.geonhViewer` is its state, for tests
// and for pages that embed it.
(async () => {
  const $ = (id) => document.getElementById(id);
  const header = JSON.parse($("header").textContent);
  const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777"];
  const DASHES = [[], [6, 3], [8, 3, 2, 3], [2, 2], [8, 3, 2, 3, 2, 3], [12, 3]];
  const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4, 8, 16];
  const ARROW_COLOURS = ["#CC3311", "#AA3377", "#228833"];

  // --- data ------------------------------------------------------------------------------------------------------
  function fail(text) {
    $("warning").textContent = text;
    $("warning").hidden = false;
  }
  let buffer;
  try {
    buffer = await geonhUnpacked("data");
    (0, eval)(new TextDecoder().decode(await geonhUnpacked("three")) + ";globalThis.THREE = THREE;");
  } catch (error) {
    return fail("This browser cannot unpack the page: " + error.message);
  }
  const array = (a) => geonhArray(buffer, a);
  const T = globalThis.THREE;

  // --- runs ------------------------------------------------------------------------------------------------------
  const several = header.runs.length > 1;
  const runs = header.runs.map((run, index) => ({
    ...run,
    index,
    t: array(run.t),
    colour: COLOURS[index % COLOURS.length],
    bodies: run.bodies.map((body) => ({
      ...body, x: array(body.x), q: array(body.q), scale: body.scale && array(body.scale),
    })),
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
  const canvas = $("scene");
  let made;
  try {
    made = geonhScene(T, canvas, size);
  } catch (error) {
    return fail("This browser shows no WebGL, which the view in three dimensions needs.");
  }
  const { renderer, scene, camera, controls } = made;
  controls.addEventListener("change", () => { dirty = true; });
  let dirty = true;

  const { inks, grounds, mesh, arrowOf, point } = geonhMeshes(T, array);

  // How large a body is: arrows are as long as that at most.
  const bodySize = geonhBodySize(runs[0].bodies, array), small = geonhIsSmall(bodySize, size);
  const reach = small ? 2 * bodySize : Math.min(Math.max(2 * bodySize, 0.12 * size), 0.6 * size);
  if (small) state.camera = "follow";

  for (const run of runs) {
    run.group = new T.Group();
    scene.add(run.group);
    for (const body of run.bodies) {
      body.object = new T.Group();
      body.object.name = body.name;
      for (const part of body.parts) body.object.add(mesh(part, body, several && run.colour));
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
      const material = new T.LineMaterial({ color: several ? run.colour : body.parts.length ? body.colour : COLOURS[0], linewidth: 2 });
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

  // --- camera ----------------------------------------------------------------------------------------------------
  const middle = new T.Vector3(...low.map((v, i) => (v + high[i]) / 2));
  const followed = new T.Vector3();
  function aim() {
    const target = state.camera === "follow" ? anchor(runs[0]).clone() : middle.clone();
    const [w, h] = cell(), slope = Math.tan(camera.fov * Math.PI / 360);
    const from = new T.Vector3(...(state.camera === "top" ? [0, -1e-3, 1] : [-0.42, -0.78, 0.5])).normalize();
    let distance = (small ? 9 * bodySize : Math.min(size, Math.max(6 * bodySize, 0.3 * size))) / 2 / slope / Math.min(1, w / h);
    if (state.camera !== "follow") { // so far that every corner of the box of all that moves is seen
      const right = new T.Vector3(0, 0, 1).cross(from).normalize(), above = from.clone().cross(right), corner = new T.Vector3();
      distance = 0;
      for (let k = 0; k < 8; k++) {
        corner.set(...[0, 1, 2].map((i) => ((k >> i) & 1 ? high[i] : low[i]))).sub(target);
        const aside = Math.max(Math.abs(corner.dot(right)) * h / w, Math.abs(corner.dot(above)));
        distance = Math.max(distance, corner.dot(from) + 1.1 * aside / slope);
      }
    }
    controls.target.copy(target);
    camera.near = Math.min(size / 500, distance / 50);
    camera.position.copy(from).multiplyScalar(distance).add(target);
    followed.copy(target);
    controls.update();
    dirty = true;
  }
  function follow() {
    if (state.camera !== "follow") return;
    const now = anchor(runs[0]);
    camera.position.add(now).sub(followed);
    controls.target.add(now).sub(followed);
    followed.copy(now);
    controls.update();
  }

  // --- drawing ---------------------------------------------------------------------------------------------------
  function cell() {
    const w = canvas.clientWidth || 1, h = canvas.clientHeight || 1;
    if (!state.side) return [w, h];
    return w >= h ? [w / runs.length, h] : [w, h / runs.length];
  }
  function render() {
    pose();
    follow();
    const w = canvas.clientWidth, h = canvas.clientHeight, [cw, ch] = cell();
    if (!w || !h) return;
    camera.aspect = cw / ch;
    camera.updateProjectionMatrix();
    const shown = state.side ? runs.map((run) => [run]) : [runs];
    shown.forEach((group, k) => {
      for (const run of runs) {
        run.group.visible = group.includes(run);
        for (const body of run.bodies) if (body.ground) body.object.visible = state.side || run === runs[0];
        for (const path of run.paths) path.material.resolution.set(cw, ch);
      }
      const across = cw < w - 1;
      renderer.setViewport(across ? k * cw : 0, across || !state.side ? 0 : h - (k + 1) * ch, cw, ch);
      renderer.setScissor(across ? k * cw : 0, across || !state.side ? 0 : h - (k + 1) * ch, cw, ch);
      renderer.render(scene, camera);
    });
    drawCursor();
    $("scrub").value = state.time;
    $("scrub").setAttribute("aria-valuetext", `${state.time.toFixed(3)} ${runs[0].second}`);
    $("clock").textContent = `${state.time.toFixed(2)} ${runs[0].second} / ${end.toFixed(2)} ${runs[0].second}`;
  }
  function labels() {
    const across = cell()[0] < canvas.clientWidth - 1;
    $("labels").replaceChildren(...(state.side ? runs : []).map((run, k) => {
      const span = document.createElement("span");
      span.textContent = run.name;
      span.style.color = run.colour;
      span.style.left = across ? `${(100 * (k + 0.5)) / runs.length}%` : "50%";
      if (!across) span.style.bottom = `${(100 * (runs.length - 1 - k)) / runs.length + 1}%`;
      return span;
    }));
  }
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

  // --- curves ----------------------------------------------------------------------------------------------------
  const titles = [...new Set(runs.flatMap((run) => run.panels.map((p) => p.title)))];
  const plots = titles.map((title) => {
    const figure = document.createElement("figure"), caption = document.createElement("figcaption");
    const keys = document.createElement("div"), drawing = document.createElement("canvas");
    const found = runs.flatMap((run) => run.panels.filter((p) => p.title === title).map((panel) => ({ run, panel })));
    const { unit, log } = found[0].panel;
    caption.textContent = unit ? `${title} (${unit})` : title;
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", `${title} against time`);
    const names = [...new Set(found.flatMap(({ panel }) => panel.curves.map((curve) => curve.name)))];
    const dash = (name) => DASHES[names.indexOf(name) % DASHES.length];
    const colour = (run, name) => (several ? run.colour : COLOURS[names.indexOf(name) % COLOURS.length]);
    const curves = found.flatMap(({ run, panel }) => panel.curves.map((curve) => (
      { ...curve, colour: colour(run, curve.name), dash: dash(curve.name) })));
    keys.className = "keys";
    keys.append(...names.map((name) => { // of several runs, the dashes tell the curves apart, the colours the runs
      const span = document.createElement("span"), stroke = several ? "currentColor" : colour(runs[0], name);
      span.innerHTML = `<svg width="24" height="4" aria-hidden="true"><line y1="2" x2="24" y2="2" stroke-width="2.5"/></svg>`;
      span.querySelector("line").setAttribute("stroke", stroke);
      span.querySelector("line").setAttribute("stroke-dasharray", dash(name).join(" "));
      span.append(name);
      return span;
    }));
    figure.append(caption, keys, drawing);
    $("plots").append(figure);
    const plot = { drawing, curves, log, still: document.createElement("canvas") };
    const seek = (event) => {
      const box = drawing.getBoundingClientRect();
      setTime(begin + (end - begin) * Math.min(1, Math.max(0, (event.clientX - box.left - LEFT) / (box.width - LEFT - 6))));
    };
    drawing.addEventListener("pointerdown", (event) => { drawing.setPointerCapture(event.pointerId); seek(event); });
    drawing.addEventListener("pointermove", (event) => { if (event.buttons) seek(event); });
    return plot;
  });
  const LEFT = 52;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const superscript = (n) => "10" + String(n).replace("-", "⁻").replace(/\d/g, (d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]);
  function nice(span, count) {
    const raw = span / count, unit = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map((m) => m * unit).find((step) => step >= raw);
  }
  function drawCurves() {
    const ratio = devicePixelRatio;
    for (const plot of plots) {
      const w = plot.drawing.clientWidth, h = plot.drawing.clientHeight;
      for (const c of [plot.drawing, plot.still]) { c.width = w * ratio; c.height = h * ratio; }
      const g = plot.still.getContext("2d");
      g.scale(ratio, ratio);
      const bottom = h - 16, width = w - LEFT - 6;
      let least = Infinity, most = -Infinity;
      for (const { y } of plot.curves) for (const v of y) if (isFinite(v)) { least = Math.min(least, v); most = Math.max(most, v); }
      if (!isFinite(least)) { least = 0; most = 1; }
      if (plot.log) { least = Math.floor(Math.max(least, -17)); most = Math.max(Math.ceil(most), least + 1); }
      if (!plot.log) { // no more than three digits of a constant
        const space = Math.max(most - least, 1e-3 * Math.max(Math.abs(most), Math.abs(least)), 1e-12), mean = (most + least) / 2;
        least = mean - 0.56 * space;
        most = mean + 0.56 * space;
      }
      plot.x = (t) => LEFT + (width * (t - begin)) / ((end - begin) || 1);
      const py = (v) => bottom - ((bottom - 6) * (v - least)) / (most - least);
      g.font = "11px system-ui, sans-serif";
      g.fillStyle = css("--soft");
      g.strokeStyle = css("--line");
      g.lineWidth = 1;
      const step = plot.log ? Math.max(1, Math.ceil((most - least) / 5)) : nice(most - least, 5);
      const decimals = Math.max(0, -Math.floor(Math.log10(step)));
      g.textAlign = "right";
      g.textBaseline = "middle";
      for (let v = Math.ceil(least / step) * step; v <= most + 1e-9 * step; v += step) {
        g.beginPath(); g.moveTo(LEFT, py(v)); g.lineTo(w - 6, py(v)); g.stroke();
        const text = plot.log ? superscript(Math.round(v)) : Math.abs(v) < 1e-9 * step ? "0" : decimals > 5 ? v.toExponential(2) : v.toFixed(decimals);
        g.fillText(text, LEFT - 5, py(v));
      }
      const tick = nice((end - begin) || 1, 5), places = Math.max(0, -Math.floor(Math.log10(tick)));
      g.textAlign = "center";
      g.textBaseline = "top";
      for (let v = Math.ceil(begin / tick) * tick; v <= end + 1e-9; v += tick) g.fillText(v.toFixed(places) + (v + tick > end ? ` ${runs[0].second}` : ""), Math.min(plot.x(v), w - 18), bottom + 3);
      for (const run of runs) if (run.spoiled !== null) {
        g.fillStyle = "rgba(204, 51, 17, 0.14)";
        g.fillRect(plot.x(run.spoiled), 6, w - 6 - plot.x(run.spoiled), bottom - 6);
      }
      g.save();
      g.beginPath(); g.rect(LEFT, 2, width + 1, bottom); g.clip();
      g.lineWidth = 1.6;
      for (const { t, y, colour, dash } of plot.curves) {
        g.strokeStyle = colour;
        g.setLineDash(dash);
        g.beginPath();
        for (let i = 0, pen = false; i < t.length; i++) {
          if (!isFinite(y[i])) { pen = false; continue; }
          if (pen) g.lineTo(plot.x(t[i]), py(y[i])); else g.moveTo(plot.x(t[i]), py(y[i]));
          pen = true;
        }
        g.stroke();
      }
      g.restore();
    }
  }
  function drawCursor() {
    if (!state.curves) return;
    for (const plot of plots) {
      if (!plot.x) continue;
      const g = plot.drawing.getContext("2d"), ratio = devicePixelRatio, x = plot.x(state.time) * ratio;
      g.clearRect(0, 0, plot.drawing.width, plot.drawing.height);
      g.drawImage(plot.still, 0, 0);
      g.strokeStyle = css("--ink");
      g.lineWidth = ratio;
      g.beginPath(); g.moveTo(x, 2); g.lineTo(x, plot.drawing.height - 16 * ratio); g.stroke();
    }
  }

  // --- what the user does ------------------------------------------------------------------------------------------
  function setTime(t) {
    state.time = Math.min(end, Math.max(begin, t));
    dirty = true;
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
    $("play").textContent = state.playing ? "❚❚" : "▶";
    $("play").setAttribute("aria-label", state.playing ? "Pause" : "Play");
    dirty = true;
  }
  function set(name, value) {
    state[name] = value;
    apply();
  }
  function apply() {
    document.documentElement.dataset.theme = state.dark ? "dark" : "light";
    for (const name of ["loop", "traces", "force", "momentum", "side", "curves"]) $(name).setAttribute("aria-pressed", state[name]);
    $("speed").value = state.speed;
    $("camera").value = state.camera;
    $("plots").hidden = !state.curves;
    scene.background = new T.Color(css("--back"));
    for (const [material, isGround] of inks) material.color.set(isGround ? css("--soft") : state.dark ? "#0b0d10" : "#1a1d21");
    for (const material of grounds) material.color.set(css("--panel"));
    legend();
    labels();
    resize();
  }
  function resize() {
    renderer.setSize(canvas.clientWidth || 1, canvas.clientHeight || 1, false);
    if (state.curves) drawCurves();
    dirty = true;
  }
  const speed = (by) => set("speed", SPEEDS[Math.min(SPEEDS.length - 1, Math.max(0, SPEEDS.indexOf(state.speed) + by))]);
  const CAMERAS = ["free", "follow", "top"];
  function setCamera(name) { set("camera", name); aim(); }
  function setSide(on) { if (several) { set("side", on); aim(); } }
  function toggleHelp() {
    $("keys").hidden = !$("keys").hidden;
    $("help").setAttribute("aria-expanded", !$("keys").hidden);
    resize();
  }
  const keys = {
    " ": () => setPlaying(!state.playing),
    ArrowLeft: (e) => step(e.shiftKey ? -10 : -1),
    ArrowRight: (e) => step(e.shiftKey ? 10 : 1),
    Home: () => setTime(begin),
    End: () => setTime(end),
    "[": () => speed(-1),
    "]": () => speed(1),
    l: () => set("loop", !state.loop),
    c: () => setCamera(CAMERAS[(CAMERAS.indexOf(state.camera) + 1) % CAMERAS.length]),
    r: aim,
    t: () => set("traces", !state.traces),
    f: () => set("force", !state.force),
    m: () => set("momentum", !state.momentum),
    s: () => setSide(!state.side),
    p: () => set("curves", !state.curves),
    d: () => set("dark", !state.dark),
    "?": toggleHelp,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    if (event.key === " " && event.target.tagName === "BUTTON") return; // the button's own
    const key = keys[event.key] || keys[event.key.toLowerCase()];
    if (!key) return;
    event.preventDefault();
    key(event);
  });
  $("speed").append(...SPEEDS.map((s) => new Option(`× ${s}`, s)));
  $("speed").addEventListener("change", (e) => set("speed", Number(e.target.value)));
  $("camera").addEventListener("change", (e) => setCamera(e.target.value));
  $("play").addEventListener("click", () => setPlaying(!state.playing));
  for (const name of ["loop", "traces", "force", "momentum", "curves"]) $(name).addEventListener("click", () => set(name, !state[name]));
  $("side").addEventListener("click", () => setSide(!state.side));
  $("reset").addEventListener("click", aim);
  $("theme").addEventListener("click", () => set("dark", !state.dark));
  $("help").addEventListener("click", toggleHelp);
  $("scrub").min = begin;
  $("scrub").max = end;
  $("scrub").addEventListener("input", (e) => { setPlaying(false); setTime(Number(e.target.value)); });
  new ResizeObserver(() => { labels(); resize(); }).observe(canvas);

  // --- begin -------------------------------------------------------------------------------------------------------
  $("title").textContent = header.title;
  $("facts").textContent = several
    ? runs.map((run) => `${run.name}: ${run.facts}`).filter((text, i, all) => i < 4 && all.indexOf(text) === i).join("  ·  ")
    : `${runs[0].method}, ${runs[0].facts}`;
  const warnings = runs.filter((run) => run.warning).map((run) => (several ? `${run.name}: ` : "") + run.warning);
  if (warnings.length) fail(warnings.join("; "));
  $("side").hidden = !several;
  $("force").hidden = !runs.some((run) => run.arrows[0] || run.arrows[1]);
  $("momentum").hidden = !runs.some((run) => run.arrows[2]);
  apply();
  pose();
  aim();
  let last = performance.now();
  function tick(now) {
    const passed = Math.min(0.1, (now - last) / 1000);
    last = now;
    if (state.playing) {
      const next = state.time + passed * state.speed;
      if (next < end) setTime(next);
      else if (state.loop) setTime(begin);
      else { setTime(end); setPlaying(false); }
    }
    if (dirty) { dirty = false; render(); }
    requestAnimationFrame(tick);
  }
  requestAnimationFrame(tick);

  /** Where a body's point (the origin) is in the scene: [x, y, z]. */
  function position(name, run = 0, at = [0, 0, 0]) {
    pose();
    const object = runs[run].bodies.find((body) => body.name === name).object;
    object.updateMatrixWorld(true);
    return object.localToWorld(new T.Vector3(...at)).toArray();
  }
  window.geonhViewer = { state, runs: header.runs, begin, end, setTime, setPlaying, set, setCamera, setSide, position, ready: true };
})();
