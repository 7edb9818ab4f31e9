function element(name, attributes = {}, ...children) {
  const svg = ["svg", "rect", "text", "line", "path", "g", "title", "defs", "pattern"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name)
                   : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}
function time(seconds) {
  for (const [size, name] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]) {
    if (seconds >= 0.9995 * size) return digits(seconds / size) + " " + name;
  }
  return digits(seconds / 1e-9) + " ns";
}
function digits(value) { return value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0); }
function bytes(count) {
  for (const [size, name] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (count >= 0.9995 * size) return digits(count / size) + " " + name;
  }
  return count + " B";
}
