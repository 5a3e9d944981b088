// A page that was opened from the disk may not start a worker: there, the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  const deliver = (data, to) => {
    const copy = structuredClone(data);
    setTimeout(() => to(copy));
  };
  window.Worker = class {
    constructor(address) {
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => deliver(data, (copy) => this.onmessage?.({ data: copy }));
      const script = inside.document.createElement("script");
      script.src = new URL(address, location.href).href;
      script.onload = () => {
        this.send = (data) => deliver(data, (copy) => inside.onmessage({ data: copy }));
        this.waiting.forEach(this.send);
      };
      script.onerror = () => this.onerror?.(new Event("error"));
      inside.document.body.append(script);
    }

    postMessage(data) {
      this.send ? this.send(data) : this.waiting.push(data);
    }

    terminate() {
      this.frame.remove();
    }
  };
}
