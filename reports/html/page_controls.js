// SPDX-License-Identifier: Apache-2.0
// What a reader presses: choices, boxes, toggles, and a command line to copy.

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

const SHORT_CASE = 24;  // fits its <select> anywhere

/// A choice of a case, which can be longer than its <select>: below it stands all of it.
function caseChoice(cases, chosen, onchoice) {
  const titleOf = (text) => cases.find((one) => one.text === text).title;
  const whole = element('p', {class: 'note whole'});
  const show = (text) =>
      whole.replaceChildren(titleOf(text).length > SHORT_CASE ? visible(titleOf(text)) : '');
  show(chosen);
  const select = choice(
      'Case', cases.map(({text, title}) => ({value: text, label: title})), chosen, (value) => {
        show(value);
        onchoice(value);
      });
  return [select, whole];
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

/// A command line with a button that copies it as it is shown: nothing unseen goes to a terminal.
function commandLine(text) {
  const shown = visible(text);
  const button = element(
      'button', {
        type: 'button',
        onclick: () => {
          navigator.clipboard.writeText(shown).then(
              () => {
                button.textContent = 'copied';
              },
              () => {
                button.textContent = 'select it by hand';
              });
        }
      },
      'copy');
  // Lines break between words, and inside of one only where it is longer than a line.
  const words = shown.split(' ').flatMap(
      (word, k) => [k > 0 ? ' ' : '', element('span', {class: 'word'}, word)]);
  return element('div', {class: 'command'}, element('code', {}, words), button);
}
