// SPDX-License-Identifier: Apache-2.0
// Elements of the page. Text of a report becomes text nodes and attribute values, never markup.

/// Makes an element: element("td", {class: "number", onclick: f, "--fill": "40%"}, "text", child).
/// Handlers begin with "on", custom properties with "--"; null and false leave an attribute or
/// child out.
function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) {
      node.addEventListener(key.slice(2), value);
    } else if (key.startsWith('--')) {
      node.style.setProperty(key, value);
    } else {
      node.setAttribute(
          key,
          value === true      ? '' :
              key === 'title' ? String(value).replace(UNSEEN, spelled) :
                                value);
    }
  }
  node.append(...children.flat(2)
                  .filter((child) => child !== null && child !== undefined)
                  .map((child) => (child instanceof Node ? child : visible(child))));
  return node;
}

/// Adds a section with a heading and a line below it to the page; returns its element.
function section(id, title, note) {
  return element(
      'section', {id, class: 'card', 'aria-labelledby': id + '-title'},
      element('h2', {id: id + '-title'}, title), note ? element('p', {class: 'note'}, note) : null);
}

/// Makes a cell of a string, a node, an array of them, or a <td>, which stays as it is. `label`:
/// the head of the column, for a row that stands by itself.
function cellNode(content, label, kind = null) {
  const cell =
      content instanceof HTMLTableCellElement ? content : element('td', {class: kind}, content);
  cell.dataset.label = visible(label);
  return cell;
}

const nameCell = (name) => element('td', {class: 'name'}, breakable(name));

/// Makes a table whose first row is a head of words.
function plainTable(head, rows, attributes = {}) {
  return fitted(element(
      'table', attributes,
      element(
          'thead', {}, element('tr', {}, head.map((cell) => element('th', {scope: 'col'}, cell)))),
      element(
          'tbody', {},
          rows.map(
              (cells) => element('tr', {}, cells.map((cell, k) => cellNode(cell, head[k])))))));
}
