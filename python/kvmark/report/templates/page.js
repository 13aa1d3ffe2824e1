// Draws every figure from its specification and draws it again when its room changes.
"use strict";
(() => {
  const AXIS = 84; // room left of the first panel, in pixels
  const GAP = 26;
  const NARROWEST = 120;
  const WIDEST = 460;
  const specifications = JSON.parse(document.getElementById("specifications").textContent);

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

  function watch(place, spec) {
    const canvas = place.appendChild(document.createElement("div"));
    let view;
    let drawn = 0;
    let busy = false;
    const draw = async () => {
      const width = Math.floor(place.clientWidth);
      if (busy || width === 0 || Math.abs(width - drawn) < 8) return;
      busy = true;
      drawn = width;
      view?.finalize();
      try {
        view = await window.vegaEmbed(canvas, fitted(spec, width), options);
        place.dataset.state = "drawn";
      } catch (error) {
        place.dataset.state = "failed";
        canvas.textContent = `This figure can't be drawn: ${error.message}`;
        console.error(error);
      }
      busy = false;
      draw();
    };
    let soon;
    new ResizeObserver(() => {
      clearTimeout(soon);
      soon = setTimeout(draw, 60);
    }).observe(place);
    draw();
  }

  for (const { name, spec } of specifications) {
    watch(document.querySelector(`[data-figure="${CSS.escape(name)}"]`), spec);
  }
})();
