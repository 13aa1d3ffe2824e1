// Browsers start no worker from a page that is a file. There a hidden frame takes the worker's place, so that the
// search works. The site's generator would fetch such a script from elsewhere; its name says that there is one.
if (location.protocol === "file:") {
  window.Worker = class {
    #frame = document.createElement("iframe");
    #inside;
    #ready;

    constructor(url) {
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      this.#inside = this.#frame.contentWindow;
      this.#inside.document.open();
      this.#inside.document.write("<!doctype html><body></body>");
      this.#inside.document.close();
      this.#inside.postMessage = (data) => queueMicrotask(() => this.onmessage?.({ data }));
      const script = this.#inside.document.createElement("script");
      script.src = new URL(url, location);
      this.#ready = new Promise((resolve) => (script.onload = resolve));
      script.onerror = (problem) => this.onerror?.(problem);
      this.#inside.document.body.append(script);
    }

    postMessage(data) {
      this.#ready.then(() => this.#inside.onmessage({ data }));
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
