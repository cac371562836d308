// SPDX-License-Identifier: Apache-2.0
// Controls: choices, boxes, toggles, and a command line to copy.

/// Makes a labelled <select>; options are strings or {value, label}.
function choice(label, options, chosen, onchoice) {
  const select =
      element('select', {onchange: () => onchoice(select.value)}, options.map((option) => {
        const {value, label: text} =
            typeof option === 'string' ? {value: option, label: option} : option;
        return element('option', {value, selected: value === chosen}, text);
      }));
  return element('label', {class: 'field'}, element('span', {}, label), select);
}

// Characters that fit a <select> in a narrow window and in a wide one.
const SHORT_OPTION = 24, LONG_OPTION = 100;

/// Makes a choice whose options can be longer than its <select>; the full text of the chosen one
/// stands below it.
function longChoice(label, options, chosen, onchoice) {
  const whole = element('p', {class: 'note whole'});
  const show = (value) => {
    const text = options.find((option) => option.value === value).label;
    whole.replaceChildren(text.length > SHORT_OPTION ? visible(text) : '');
    whole.classList.toggle('long', text.length > LONG_OPTION);
  };
  show(chosen);
  const select = choice(label, options, chosen, (value) => {
    show(value);
    onchoice(value);
  });
  return [select, whole];
}

function checkbox(label, checked, onchange) {
  const box = element('input', {type: 'checkbox', checked, onchange: () => onchange(box.checked)});
  return element('label', {class: 'field'}, box, element('span', {}, label));
}

/// Makes a row of buttons, one of which is pressed.
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

/// Copies a text; where the page may not, selects it for the reader to copy.
async function copyText(text, shownIn, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'copied';
  } catch {
    getSelection().selectAllChildren(shownIn);
    button.textContent = 'selected';
  }
}

/// Makes a command line with a button that copies it as shown: nothing unseen goes to a terminal.
function commandLine(text) {
  const shown = visible(text);
  // Lines break between words; inside a word only if it is longer than a line.
  const words = shown.split(' ').flatMap(
      (word, k) => [k > 0 ? ' ' : '', element('span', {class: 'word'}, word)]);
  const code = element('code', {}, words);
  const button =
      element('button', {type: 'button', onclick: () => copyText(shown, code, button)}, 'copy');
  return element('div', {class: 'command'}, code, button);
}
