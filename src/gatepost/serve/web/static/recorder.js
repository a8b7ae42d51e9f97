// A voice note: recorded while the button is on, then a file like any other.
import { t } from "/static/texts.js";
const TYPES = ["audio/webm;codecs=opus", "audio/ogg;codecs=opus", "audio/mp4"];
const LONGEST_MS = 10 * 60_000;
const LEAST_MS = 400; // what is shorter may hold no sound at all, and cannot be played

export class Recorder {
  // `add`: takes the file; `refuse`: says why there is none.
  constructor(button, add, refuse) {
    Object.assign(this, { button, add, refuse, recording: null, timer: 0, begun: 0 });
    button.hidden = !(navigator.mediaDevices && "MediaRecorder" in window);
    button.addEventListener("click", () => (this.recording ? this.stop() : this.start()));
  }

  async start() {
    let source;
    try {
      source = await navigator.mediaDevices.getUserMedia({ audio: true });
    } catch {
      this.refuse(t("The browser gives this page no microphone. Allow it in the browser's settings for this page."));
      return;
    }
    const mimeType = TYPES.find((type) => MediaRecorder.isTypeSupported(type));
    const recording = new MediaRecorder(source, mimeType ? { mimeType } : {});
    const parts = [];
    recording.addEventListener("dataavailable", (event) => parts.push(event.data));
    recording.addEventListener("stop", () => {
      for (const track of source.getTracks()) track.stop();
      this.draw(null);
      const type = (recording.mimeType || "audio/webm").split(";")[0];
      if (parts.some((part) => part.size)) this.add(new File(parts, `voice-note.${type.split("/")[1]}`, { type }));
    });
    recording.start();
    this.begun = performance.now();
    this.timer = setTimeout(() => this.stop(), LONGEST_MS);
    this.draw(recording);
  }

  stop() {
    clearTimeout(this.timer);
    const left = LEAST_MS - (performance.now() - this.begun);
    if (left > 0) this.timer = setTimeout(() => this.stop(), left);
    else if (this.recording?.state === "recording") this.recording.stop();
  }

  draw(recording) {
    this.recording = recording;
    const label = recording ? t("Stop recording") : t("Record a voice note");
    this.button.setAttribute("aria-pressed", String(Boolean(recording)));
    this.button.setAttribute("aria-label", label);
    this.button.title = label;
  }
}
