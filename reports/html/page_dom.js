// SPDX-License-Identifier: Apache-2.0
// Making elements. Text of a report becomes text nodes and attribute values, never markup.

/// element("td", {class: "number", onclick: f, "--fill": "40%"}, "text", child): handlers by "on",
/// custom properties by "--"; null and false leave an attribute or child out.
function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) {
      node.addEventListener(key.slice(2), value);
    } else if (key.startsWith('--')) {
      node.style.setProperty(key, value);
    } else {
      node.setAttribute(key, value === true ? '' : value);
    }
  }
  node.append(...children.flat(2).filter((child) => child !== null && child !== undefined));
  return node;
}

/// A section of the page with a heading and a line below it; returns its element.
function section(id, title, note) {
  return element(
      'section', {id, class: 'card', 'aria-labelledby': id + '-title'},
      element('h2', {id: id + '-title'}, title), note ? element('p', {class: 'note'}, note) : null);
}

/// Cells are strings, nodes, arrays of them, or <td> as they shall be.
const cellNode = (content, kind = null) =>
    (content instanceof HTMLTableCellElement ? content : element('td', {class: kind}, content));

/// A table whose first row is a head.
function plainTable(head, rows, attributes = {}) {
  return element(
      'table', attributes,
      element(
          'thead', {}, element('tr', {}, head.map((cell) => element('th', {scope: 'col'}, cell)))),
      element(
          'tbody', {},
          rows.map((cells) => element('tr', {}, cells.map((cell) => cellNode(cell))))));
}

/// A labelled <select>; options are strings or {value, label}.
function choice(label, options, chosen, onchoice) {
  const select =
      element('select', {onchange: () => onchoice(select.value)}, options.map((option) => {
        const {value, label: text} =
            typeof option === 'string' ? {value: option, label: option} : option;
        return element('option', {value, selected: value === chosen}, text);
      }));
  return element('label', {class: 'field'}, element('span', {}, label), select);
}

function checkbox(label, checked, onchange) {
  const box = element('input', {type: 'checkbox', checked, onchange: () => onchange(box.checked)});
  return element('label', {class: 'field'}, box, element('span', {}, label));
}

/// Buttons of which one is pressed.
function toggle(label, options, chosen, onchoice) {
  const group = element('div', {class: 'toggle', role: 'group', 'aria-label': label});
  const press = (value) => {
    for (const button of group.children) {
      button.setAttribute('aria-pressed', String(button.dataset.value === value));
    }
  };
  for (const {value, label: text} of options) {
    group.append(element(
        'button', {
          type: 'button',
          'data-value': value,
          onclick: () => {
            press(value);
            onchoice(value);
          }
        },
        text));
  }
  press(chosen);
  return group;
}

/// A command line with a button that copies it.
function commandLine(text) {
  const button = element(
      'button', {
        type: 'button',
        onclick: () => {
          navigator.clipboard.writeText(text).then(
              () => {
                button.textContent = 'copied';
              },
              () => {
                button.textContent = 'select it by hand';
              });
        }
      },
      'copy');
  return element('div', {class: 'command'}, element('code', {}, text), button);
}
