// What a page does more with a script than without: times in the reader's zone, forms that are sent once, and a content that
// is read again when something has happened. Nothing else needs it.
"use strict";

(() => {
  // At most one reading of the page in this time, in milliseconds. All pages hear of a change at once, and each reads at some
  // time within it. With many viewers the coordinator says a longer one.
  let pauseMs = 1000;
  // After this time a stream that was refused is asked for again.
  const RETRY_MS = 15000;

  const shown = new Intl.DateTimeFormat(undefined, {
    year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", timeZoneName: "short",
  });
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

  function localTimes(within) {
    for (const time of within.querySelectorAll("time[datetime]")) {
      const at = new Date(time.getAttribute("datetime"));
      if (!Number.isNaN(at.valueOf())) {
        time.title = time.textContent;
        time.textContent = shown.format(at);
      }
    }
    // The days of a week begin at midnight UTC: elsewhere that is no day's begin, so they stay as they are.
    for (const mark of within.querySelectorAll("text[data-time]:not([data-form=week])")) {
      const at = new Date(mark.dataset.time);
      if (!Number.isNaN(at.valueOf())) {
        mark.textContent = clock.format(at);
      }
    }
  }

  // A second click does nothing. The server would do nothing either.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.once === undefined) {
      return;
    }
    if (form.dataset.sent) {
      event.preventDefault();
    }
    form.dataset.sent = "yes";
    // The browser restores a page that it goes back to: then the form can be sent again.
    addEventListener("pageshow", () => delete form.dataset.sent, { once: true });
  });

  // A slider says where it is as it moves, and goes there when it is let go. By keyboard each step would be one: there Enter
  // goes.
  function slide(slider, is_over) {
    const form = slider.form;
    const output = form?.matches("[data-slides]") ? form.querySelector("output") : null;
    if (output) {
      output.textContent = shown.format(new Date(Date.parse(output.dataset.base) + slider.value * 3600000));
      if (is_over) {
        form.requestSubmit();
      }
    }
  }
  document.addEventListener("input", (event) => slide(event.target, false));
  document.addEventListener("pointerup", (event) => event.target.matches("[type=range]") && slide(event.target, true));

  function say(text) {
    const live = document.getElementById("live");
    if (live && live.textContent !== text) {
      live.textContent = text;
    }
  }

  // What the reader has opened, and is at.
  function keptState(main) {
    const open = [...main.querySelectorAll("details[open][id]")].map((one) => one.id);
    const links = [...main.querySelectorAll("a[href]")];
    const at = links.indexOf(document.activeElement);
    const href = at < 0 ? null : links[at].getAttribute("href");
    return { open, href, scroll: [...main.querySelectorAll(".scroll")].map((one) => one.scrollLeft) };
  }

  function restore(main, kept) {
    for (const id of kept.open) {
      document.getElementById(id)?.setAttribute("open", "");
    }
    main.querySelectorAll(".scroll").forEach((one, at) => { one.scrollLeft = kept.scroll[at] ?? 0; });
    if (kept.href !== null) {
      [...main.querySelectorAll("a[href]")].find((one) => one.getAttribute("href") === kept.href)?.focus();
    }
  }

  // Whoever is filling in a form is left alone until the next event after that.
  function isBusy(main) {
    return main.contains(document.activeElement) && document.activeElement.matches("input, select, textarea");
  }

  async function readAgain() {
    const main = document.getElementById("main");
    if (isBusy(main)) {
      return false;
    }
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, credentials: "same-origin" });
    if (answer.redirected) {
      location.reload();
      return true;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("main");
    if (fresh && !isBusy(main)) {
      const kept = keptState(main);
      localTimes(fresh);
      main.replaceWith(document.adoptNode(fresh));
      restore(fresh, kept);
    }
    return true;
  }

  let isDue = false;
  let isWaiting = false;

  // Reads the page now if the last reading is long enough ago, or else once when it is.
  async function due() {
    isDue = true;
    if (isWaiting) {
      return;
    }
    isWaiting = true;
    while (isDue) {
      isDue = false;
      try {
        isDue = !(await readAgain());
      } catch {
        say("not live: the coordinator does not answer");
      }
      await new Promise((done) => setTimeout(done, pauseMs));
    }
    isWaiting = false;
  }

  function soon() {
    setTimeout(due, Math.random() * pauseMs);
  }

  function follow() {
    // The browser connects again by itself, and says after which event it goes on.
    const events = new EventSource("/live");
    events.onopen = () => {
      say("live");
      // Something may have happened since the page was read.
      soon();
    };
    events.onmessage = (event) => {
      pauseMs = Number(event.data) || pauseMs;
      soon();
    };
    events.onerror = (event) => {
      say("not live: connecting again");
      // With data it is the server's last word; without a connection, the browser has given up.
      if (event.data !== undefined || events.readyState === EventSource.CLOSED) {
        events.close();
        setTimeout(follow, RETRY_MS);
      }
    };
  }

  // A time that is typed is in the reader's zone, unless the form has one already.
  for (const zone of document.querySelectorAll("[data-zone] input")) {
    const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (own && own.includes("/")) {
      zone.value = own;
    }
  }

  localTimes(document);
  const main = document.getElementById("main");
  if (main && main.dataset.live !== undefined) {
    follow();
  }
})();
