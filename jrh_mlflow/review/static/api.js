// The server's side of the page. The token comes with the link once, is kept for this tab and leaves the address bar.

const KEPT = "jrh-review-token";

/** An answer that is not a success: `status` (0 when the server did not answer) and a message for the reviewer. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Take the token out of the address and keep it for reloads of this tab. */
export function takeToken() {
  const address = new URL(window.location.href);
  const given = address.searchParams.get("token");
  if (given) {
    window.sessionStorage.setItem(KEPT, given);
    address.searchParams.delete("token");
    window.history.replaceState(null, "", address);
  }
  return given ?? window.sessionStorage.getItem(KEPT) ?? "";
}

/** Calls of one page. */
export class Api {
  constructor(token) {
    this.token = token;
  }

  suites() {
    return this.get("suites");
  }

  suite(key, reviewer) {
    return this.get(`suites/${encodeURIComponent(key)}`, { reviewer });
  }

  items(key, query) {
    return this.get(`suites/${encodeURIComponent(key)}/items`, query);
  }

  item(key, index, reviewer) {
    return this.get(`suites/${encodeURIComponent(key)}/items/${index}`, { reviewer });
  }

  events(key, since) {
    return this.get(`suites/${encodeURIComponent(key)}/events`, { since });
  }

  decide(key, decision) {
    return this.post(`suites/${encodeURIComponent(key)}/decisions`, decision);
  }

  bulk(key, order) {
    return this.post(`suites/${encodeURIComponent(key)}/bulk`, order);
  }

  assign(key, order) {
    return this.post(`suites/${encodeURIComponent(key)}/assign`, order);
  }

  finish(key, order) {
    return this.post(`suites/${encodeURIComponent(key)}/finish`, order);
  }

  get(path, query = {}) {
    const given = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
    const search = new URLSearchParams(given).toString();
    return this.send(search ? `${path}?${search}` : path, { method: "GET" });
  }

  post(path, body) {
    const headers = { "Content-Type": "application/json" };
    return this.send(path, { method: "POST", headers, body: JSON.stringify(body) });
  }

  async send(path, options) {
    const headers = { ...options.headers, "X-JRH-Token": this.token };
    const request = { ...options, headers, cache: "no-store", credentials: "same-origin", redirect: "error" };
    let answer;
    try {
      answer = await fetch(`api/${path}`, request);
    } catch {
      throw new Refused(0, "The server does not answer. Nothing was saved; try again when it runs.");
    }
    const body = await answer.json().catch(() => null);
    if (answer.ok) return body;
    throw new Refused(answer.status, body?.message ?? `The server answered ${answer.status}.`);
  }
}
