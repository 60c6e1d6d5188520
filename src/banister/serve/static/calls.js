// Calls to the service, with the token of this tab; and its stream of events.

const KEY = "banister-token";
export class Refused extends Error { constructor(status, detail) { super(detail); this.status = status; } }

export const keepToken = (token) => sessionStorage.setItem(KEY, token);

function headers() {
  const token = sessionStorage.getItem(KEY);
  return token ? { authorization: `Bearer ${token}` } : {};
}

async function ask(path, options = {}) {
  const answer = await fetch(path, { headers: headers(), cache: "no-store", ...options });
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    throw new Refused(answer.status, problem.detail ?? `status ${answer.status}`);
  }
  return answer;
}

export const get = async (path) => (await ask(path)).json();

// Every event until the connection ends. A plain EventSource could not send the token.
export async function* events() {
  const reader = (await ask("/v1/events")).body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const found = /^event: (\w+)\ndata: (.*)$/s.exec(part);
      yield found ? { kind: found[1], data: JSON.parse(found[2]) } : { kind: "beat" };
    }
  }
}
