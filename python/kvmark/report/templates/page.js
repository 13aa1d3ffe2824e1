// Draws every figure from its specification, and draws it again when its room, its rows or the
// series that are switched on change.
"use strict";
(() => {
  const AXIS = 84; // room left of the first panel, in pixels
  const GAP = 26;
  const NARROWEST = 120;
  const WIDEST = 460;
  const COLOURS = 4;
  const figures = new Map();

  const options = {
    actions: false,
    ast: true, // expressions are interpreted: the page's policy forbids compiling them
    defaultStyle: false,
    renderer: "svg",
    tooltip: { disableDefaultStyle: true },
  };

  function fitted(spec, width) {
    if (!spec.facet) return { ...spec, width: width - 8, autosize: { type: "fit-x", contains: "padding" } };
    const most = Math.floor((width - AXIS + GAP) / (NARROWEST + GAP));
    const columns = Math.max(1, Math.min(spec.columns, most));
    const room = Math.floor((width - AXIS - (columns - 1) * GAP) / columns);
    const panel = Math.min(room, WIDEST);
    return { ...spec, columns, spec: { ...spec.spec, width: panel } };
  }

  // The rows of the series that are on; buttons stand for the legend.
  function chosen(spec, off) {
    const series = spec.usermeta?.series;
    if (!series) return spec;
    const on = (row) => !off.has(row[series.field]);
    const kept = Object.entries(spec.datasets).map(([name, rows]) => [name, rows.filter(on)]);
    return { ...withoutLegend(spec), datasets: Object.fromEntries(kept) };
  }

  function withoutLegend(part) {
    const { encoding, layer, spec, ...rest } = part;
    if (encoding) {
      const channels = Object.entries(encoding).map(([name, channel]) =>
        [name, channel.legend ? { ...channel, legend: null } : channel]);
      rest.encoding = Object.fromEntries(channels);
    }
    if (layer) rest.layer = layer.map(withoutLegend);
    if (spec) rest.spec = withoutLegend(spec);
    return rest;
  }

  function swatch(place, dash) {
    const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const look = {
      x1: 0, x2: 22, y1: 4, y2: 4, "stroke-width": 2.5, "stroke-dasharray": dash.join(" "),
      stroke: `var(--series-${1 + (place % COLOURS)})`,
    };
    for (const [name, value] of Object.entries(look)) line.setAttribute(name, value);
    drawing.setAttribute("viewBox", "0 0 22 8");
    drawing.setAttribute("aria-hidden", "true");
    drawing.append(line);
    return drawing;
  }

  function switches(place, figure) {
    const series = figure.spec.usermeta?.series;
    if (!series) return;
    const row = document.createElement("div");
    row.className = "switches";
    row.setAttribute("role", "group");
    row.setAttribute("aria-label", "Series shown");
    series.names.forEach((name, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-pressed", String(!figure.off.has(name)));
      button.append(swatch(series.places[index], series.dashes[index]), name);
      button.addEventListener("click", () => {
        if (!figure.off.delete(name)) figure.off.add(name);
        button.setAttribute("aria-pressed", String(!figure.off.has(name)));
        figure.draw(true);
      });
      row.append(button);
    });
    figure.switches?.remove();
    figure.switches = row;
    figure.known = JSON.stringify(series);
    place.before(row);
  }

  function watch(place, spec) {
    const figure = { spec, off: new Set() };
    let view;
    let drawn = 0;
    let busy = false;
    let stale = false;
    figure.draw = async (changed) => {
      const width = Math.floor(place.clientWidth);
      stale ||= Boolean(changed);
      if (busy || width === 0 || (!stale && Math.abs(width - drawn) < 8)) return;
      busy = true;
      stale = false;
      drawn = width;
      const canvas = document.createElement("div");
      try {
        const next = await window.vegaEmbed(canvas, fitted(chosen(figure.spec, figure.off), width), options);
        view?.finalize();
        view = next;
        place.dataset.state = "drawn";
      } catch (error) {
        place.dataset.state = "failed";
        canvas.textContent = `This figure can't be drawn: ${error.message}`;
        console.error(error);
      }
      place.replaceChildren(canvas);
      busy = false;
      figure.draw();
    };
    let soon;
    new ResizeObserver(() => {
      clearTimeout(soon);
      soon = setTimeout(figure.draw, 60);
    }).observe(place);
    switches(place, figure);
    figure.draw();
    return figure;
  }

  // Shows a specification where the page has a place for it, again with other rows.
  function show({ name, spec }) {
    const place = document.querySelector(`[data-figure="${CSS.escape(name)}"]`);
    if (!place) return;
    const figure = figures.get(name);
    if (!figure) {
      figures.set(name, watch(place, spec));
      return;
    }
    figure.spec = spec;
    if (figure.known !== JSON.stringify(spec.usermeta?.series)) switches(place, figure);
    figure.draw(true);
  }

  window.kvmark = { show };
  const embedded = document.getElementById("specifications");
  if (embedded) JSON.parse(embedded.textContent).forEach(show);
})();
