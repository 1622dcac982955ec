// Numbers and times as people read them.

const WHOLE = new Intl.NumberFormat("en");

export function count(value) {
  return value === null || value === undefined ? "–" : WHOLE.format(Math.round(value));
}

export function rate(value) {
  if (value === null || value === undefined) return "–";
  return value >= 10 || value === 0 ? count(value) : value.toFixed(1);
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let at = 0;
  while (value >= 1000 && at < 4) {
    value /= 1000;
    at += 1;
  }
  return `${at && value < 10 ? value.toFixed(1) : Math.round(value)} ${["B", "kB", "MB", "GB", "TB"][at]}`;
}

export function milliseconds(value) {
  if (value === null || value === undefined) return "–";
  const [number, unit] = value < 1000 ? [value, "ms"] : [value / 1000, "s"];
  return `${number < 10 ? number.toFixed(1) : Math.round(number)} ${unit}`;
}

export function duration(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.round(hours / 24)} days`;
}

export function clock(at) {
  return new Date(at * 1000).toLocaleTimeString("en-GB");
}

export function since(at, now) {
  return at ? `since ${clock(at)}, ${duration(now - at)}` : "";
}

export function plural(number, one, many) {
  return `${count(number)} ${number === 1 ? one : many ?? `${one}s`}`;
}
