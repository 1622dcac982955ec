// Elements made of plain values. Text is only ever text: nothing here, and nothing that uses it,
// reads a string as markup.

const SVG = "http://www.w3.org/2000/svg";

function made(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

export function h(name, attributes, ...children) {
  return made(document.createElement(name), attributes, children);
}

export function s(name, attributes, ...children) {
  return made(document.createElementNS(SVG, name), attributes, children);
}

// Make a node's contents like others, and leave alone what is the same: focus, selection and
// places of scrolling stay, and readers of screens are told only what has changed.
export function renew(parent, ...wanted) {
  const children = wanted.flat(Infinity).filter((child) => child !== null && child !== false);
  children.forEach((child, at) => {
    const there = parent.childNodes[at];
    const node = child instanceof Node ? child : document.createTextNode(String(child));
    if (!there) parent.append(node);
    else if (isAlike(there, node)) liken(there, node);
    else parent.replaceChild(node, there);
  });
  while (parent.childNodes.length > children.length) parent.lastChild.remove();
}

function isAlike(there, node) {
  return there.nodeName === node.nodeName && there.id === node.id;
}

function liken(there, node) {
  if (there.nodeType === Node.TEXT_NODE) {
    if (there.data !== node.data) there.data = node.data;
    return;
  }
  for (const { name } of [...there.attributes]) {
    if (!node.hasAttribute(name) && name !== "open") there.removeAttribute(name);
  }
  for (const { name, value } of [...node.attributes]) {
    if (there.getAttribute(name) !== value) there.setAttribute(name, value);
  }
  renew(there, [...node.childNodes]);
}
