// Curves against time that grow: one figure for each panel, a colour for each run or, of one run, for each curve.
function geonhCurves(host, panels, second) {
  const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777"];
  const DASHES = [[], [6, 3], [8, 3, 2, 3], [2, 2], [8, 3, 2, 3, 2, 3], [12, 3]];
  const LEFT = 56;
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const superscript = (n) => "10" + String(n).replace("-", "⁻").replace(/\d/g, (d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]);
  const nice = (span, count) => {
    const raw = span / count, unit = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].map((m) => m * unit).find((step) => step >= raw);
  };
  const figures = panels.map((panel) => {
    const figure = document.createElement("figure"), caption = document.createElement("figcaption");
    const keys = document.createElement("div"), canvas = document.createElement("canvas");
    caption.textContent = panel.unit ? `${panel.title} (${panel.unit})` : panel.title;
    canvas.setAttribute("role", "img");
    keys.className = "keys";
    figure.append(caption, keys, canvas);
    host.append(figure);
    return { panel, canvas, keys, several: null };
  });

  function name(figure, several) {
    if (figure.several === several) return;
    figure.several = several;
    figure.keys.replaceChildren(...figure.panel.curves.map((curve, i) => {
      const span = document.createElement("span");
      span.innerHTML = `<svg width="24" height="4" aria-hidden="true"><line y1="2" x2="24" y2="2" stroke-width="2.5"/></svg>`;
      const line = span.querySelector("line");
      line.setAttribute("stroke", several ? "currentColor" : COLOURS[i % COLOURS.length]);
      line.setAttribute("stroke-dasharray", DASHES[i % DASHES.length].join(" "));
      span.append(curve.name);
      return span;
    }));
  }

  /** Values of a curve along the rows of a history; logarithms of errors. */
  function values(panel, curve, rows) {
    const first = rows[0], places = curve.places;
    if (!panel.log) return rows.map((row) => row[places[0]]);
    let scale = 1;
    if (!curve.absolute && places.some((p) => Math.abs(first[p]) > 1e-12))
      for (const row of rows) for (const p of places) scale = Math.max(scale === 1 ? 0 : scale, Math.abs(row[p]));
    return rows.map((row) => {
      let error = 0;
      for (const p of places) error = Math.max(error, Math.abs(curve.absolute ? row[p] : row[p] - first[p]));
      return Math.log10(Math.max(error / scale, 1e-17));
    });
  }

  /** Draw the curves of runs, { rows, colour } each; a row begins with the time. */
  function draw(runs) {
    const several = runs.length > 1, ratio = devicePixelRatio;
    const begin = Math.min(...runs.map((run) => run.rows[0][0]));
    const end = Math.max(begin + 0.1, ...runs.map((run) => run.rows[run.rows.length - 1][0]));
    for (const figure of figures) {
      name(figure, several);
      const { canvas, panel } = figure, w = canvas.clientWidth, h = canvas.clientHeight;
      if (!w || !h) continue;
      canvas.width = w * ratio;
      canvas.height = h * ratio;
      const curves = runs.flatMap((run) => panel.curves.map((curve, i) => ({
        t: run.rows, y: values(panel, curve, run.rows), colour: several ? run.colour : COLOURS[i % COLOURS.length],
        dash: DASHES[i % DASHES.length],
      })));
      let least = Infinity, most = -Infinity;
      for (const { y } of curves) for (const v of y) if (isFinite(v)) { least = Math.min(least, v); most = Math.max(most, v); }
      if (!isFinite(least)) [least, most] = [0, 1];
      if (panel.log) {
        least = Math.floor(least);
        most = Math.max(Math.ceil(most), least + 1);
      } else {
        const space = Math.max(most - least, 1e-3 * Math.max(Math.abs(most), Math.abs(least)), 1e-12);
        const mean = (most + least) / 2;
        [least, most] = [mean - 0.56 * space, mean + 0.56 * space];
      }
      const g = canvas.getContext("2d"), bottom = h - 16, width = w - LEFT - 6;
      const px = (t) => LEFT + (width * (t - begin)) / (end - begin);
      const py = (v) => bottom - ((bottom - 6) * (v - least)) / (most - least);
      g.scale(ratio, ratio);
      g.font = "11px system-ui, sans-serif";
      g.fillStyle = css("--soft");
      g.strokeStyle = css("--line");
      g.textAlign = "right";
      g.textBaseline = "middle";
      const step = panel.log ? Math.max(1, Math.ceil((most - least) / 5)) : nice(most - least, 4);
      const decimals = Math.max(0, -Math.floor(Math.log10(step)));
      for (let v = Math.ceil(least / step) * step; v <= most + 1e-9 * step; v += step) {
        g.beginPath(); g.moveTo(LEFT, py(v)); g.lineTo(w - 6, py(v)); g.stroke();
        const text = panel.log ? superscript(Math.round(v)) : Math.abs(v) < 1e-9 * step ? "0" : decimals > 5 ? v.toExponential(2) : v.toFixed(decimals);
        g.fillText(text, LEFT - 5, py(v));
      }
      const tick = nice(end - begin, 5), places = Math.max(0, -Math.floor(Math.log10(tick)));
      g.textAlign = "center";
      g.textBaseline = "top";
      for (let v = Math.ceil(begin / tick) * tick; v <= end + 1e-9; v += tick)
        g.fillText(v.toFixed(places) + (v + tick > end ? ` ${second}` : ""), Math.min(px(v), w - 18), bottom + 3);
      g.save();
      g.beginPath(); g.rect(LEFT, 2, width + 1, bottom); g.clip();
      g.lineWidth = 1.6;
      for (const { t, y, colour, dash } of curves) {
        g.strokeStyle = colour;
        g.setLineDash(dash);
        g.beginPath();
        for (let i = 0; i < y.length; i++) g[i ? "lineTo" : "moveTo"](px(t[i][0]), py(y[i]));
        g.stroke();
      }
      g.restore();
      canvas.setAttribute("aria-label", `${panel.title} against time`);
    }
  }
  return { draw };
}
