// SPDX-License-Identifier: Apache-2.0
// Statuses: each has a word, a glyph and a colour of its own, so that any one of the three is
// enough. Worst last. `halted`: ended before its checks, shown apart from failures.

const STATUS = {
  passed: {glyph: '\u2713', kind: 'good'},
  timed: {glyph: '\u2713', kind: 'good'},
  rejected: {glyph: '\u2713', kind: 'good'},
  accepted: {glyph: '\u2713', kind: 'good'},
  OK: {glyph: '\u2713', kind: 'good'},
  IMPROVED: {glyph: '\u25BC', kind: 'good'},
  skipped: {glyph: '\u25CB', kind: 'none'},
  not_run: {glyph: '\u00B7', kind: 'none'},
  INCONCLUSIVE: {glyph: '?', kind: 'doubt'},
  unstable: {glyph: '?', kind: 'doubt'},
  above_ceiling: {glyph: '\u25B2', kind: 'bad'},
  REGRESSED: {glyph: '\u25B2', kind: 'bad'},
  survived: {glyph: '\u2717', kind: 'bad'},
  'wrongly rejected': {glyph: '\u2717', kind: 'bad'},
  failed: {glyph: '\u2717', kind: 'bad'},
  error: {glyph: '!', kind: 'bad', halted: true},
  out_of_memory: {glyph: '\u25A0', kind: 'bad', halted: true},
  crashed: {glyph: '\u2020', kind: 'bad', halted: true},
  timeout: {glyph: '\u25D4', kind: 'bad', halted: true},
};

const STATUS_NAMES = Object.keys(STATUS);
const statusOf = (name) => STATUS[name] ?? {glyph: '?', kind: 'doubt'};
const statusRank = (name) => STATUS_NAMES.indexOf(name);
const statusWords = (name) => name.replaceAll('_', ' ');

function statusBadge(name) {
  const {glyph, kind, halted} = statusOf(name);
  return element(
      'span', {class: 'badge ' + kind + (halted ? ' halted' : '')},
      element('span', {class: 'glyph', 'aria-hidden': 'true'}, glyph), statusWords(name));
}
