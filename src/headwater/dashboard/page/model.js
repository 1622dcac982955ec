// What a state says, in the words of the page: pure functions of what the server has sent.

export function sumOfLag(view) {
  const behind = Object.values(view.lag ?? {});
  return behind.length === 0 || behind.includes(null) ? null : behind.reduce((a, b) => a + b, 0);
}

export function sourcesOf(view) {
  const named = [...(view.reads ?? []), ...Object.keys(view.lag ?? {}), ...Object.keys(view.vector ?? {})];
  return [...new Set(named)];
}

// How a view stands, in one of four kinds: good, busy, late, bad.
export function standing(view, sources = {}) {
  if (["stopped", "damaged"].includes(view.state)) return "bad";
  if (view.message) return view.state === "waiting" ? "late" : "bad";
  if (["loading", "not loaded"].includes(view.state)) return "busy";
  if (["waiting", "no file", "not running"].includes(view.state)) return "late";
  return sourcesOf(view).some((name) => sources[name]?.trouble) ? "late" : "good";
}

// What is wrong: about what, since when, why, and what to do.
export function wrong(state) {
  const found = [];
  const views = Object.entries(state.views);
  for (const [name, source] of Object.entries(state.sources)) {
    if (source.trouble) {
      const affected = views.filter(([, view]) => sourcesOf(view).includes(name)).map(([each]) => each);
      found.push({ about: `source ${name}`, since: source.since, ...split(source.trouble, source.remedy), affected });
    }
    if (source.retained?.trouble) found.push({ about: `source ${name}`, why: source.retained.trouble });
  }
  const told = found.map((each) => each.whole);
  for (const [name, view] of views) {
    if (view.message && !told.includes(view.message)) {
      found.push({ about: `view ${name}`, view: name, since: view.since, ...split(view.message, view.remedy) });
    }
  }
  for (const text of state.troubles) {
    if (!found.some((each) => text.includes(each.whole ?? each.why))) found.push({ about: "project", why: text });
  }
  return found;
}

function split(text, remedy) {
  const ends = remedy && text.endsWith(remedy);
  return { whole: text, why: ends ? text.slice(0, -remedy.length).trim() : text, remedy: ends ? remedy : "" };
}

// What of a state is kept to be seen over time.
export function sampleOf(state) {
  const views = {};
  for (const [name, view] of Object.entries(state.views)) {
    views[name] = { lag: sumOfLag(view), fresh: view.freshness_ms?.median ?? null, commits: view.commits ?? null };
  }
  const sources = {};
  for (const [name, source] of Object.entries(state.sources)) sources[name] = source.end;
  return { at: state.now, views, sources };
}

// How fast a count has grown over the last seconds; null if that is not known.
export function rateOf(samples, pick, over = 5) {
  const last = samples.at(-1);
  if (!last) return null;
  const first = samples.findLast((each) => last.at - each.at >= over) ?? samples[0];
  const [from, to] = [pick(first), pick(last)];
  if (from == null || to == null || last.at <= first.at) return null;
  return Math.max(0, (to - from) / (last.at - first.at));
}

// The same at each moment, as points of a line.
export function rates(samples, pick, over = 5) {
  let begin = 0;
  return samples.map((sample, at) => {
    while (begin < at && sample.at - samples[begin].at > over) begin += 1;
    const [from, to] = [pick(samples[begin]), pick(sample)];
    if (from == null || to == null || sample.at <= samples[begin].at) return [sample.at, null];
    return [sample.at, Math.max(0, (to - from) / (sample.at - samples[begin].at))];
  });
}
