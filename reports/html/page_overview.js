// SPDX-License-Identifier: Apache-2.0
// Overview of all trials: implementations against grids, in every cell the worst ratio of its
// trials. Hangs and crashes look different from failures; a click shows the trials of a cell.

/// Cell: the statuses of its trials, and the largest ratio of their checks.
class OverviewCell {
  constructor() {
    this.statuses = new Map();  // status -> number of trials
    this.worst = null;          // a check
    this.worstTrial = null;
    this.begun = false;  // the run died in one of its trials
  }

  add(trial) {
    this.statuses.set(trial.status, (this.statuses.get(trial.status) ?? 0) + 1);
    for (const check of trial.checks) {
      if (this.worst !== null && severity(check) <= severity(this.worst)) continue;
      this.worst = check;
      this.worstTrial = trial;
    }
  }

  total() { return sum([...this.statuses.values()]); }

  /// Returns the statuses, worst first.
  inOrder() { return [...this.statuses].sort(([a], [b]) => statusRank(b) - statusRank(a)); }

  /// Returns the face of the cell: {glyph, text, kind}. Only failures and passes have a ratio.
  face() {
    if (this.begun) return {glyph: statusOf('crashed').glyph, text: 'in progress', kind: 'halted'};
    const [status] = this.inOrder()[0];
    const words = {glyph: statusOf(status).glyph, text: statusWords(status)};
    if (statusOf(status).halted) return {...words, kind: 'halted'};
    const ratio = this.worst && formatRatio(this.worst.ratio);
    if (status === 'failed')
      return {
        glyph: words.glyph,
        text: this.worst && !this.worst.passed ? ratio : words.text,
        kind: 'bad'
      };
    if (this.worst === null) return {...words, kind: 'none'};
    const isNear = comparable(this.worst.ratio) > 0.5;
    return isNear ? {glyph: '\u25D5', text: ratio, kind: 'near'} :
                    {glyph: '\u2713', text: ratio, kind: 'fine'};
  }

  /// Returns "1 of 6 timeout, 5 failed"; nothing when all passed, or the face has it already.
  note() {
    const others = this.inOrder().filter(([status]) => !['passed', 'skipped'].includes(status));
    if (this.begun) return 'when the run died';
    if (others.length === 0 || (this.statuses.size === 1 && this.worst === null)) return '';
    return others
        .map(
            ([status, count], k) => formatCount(count) +
                (k === 0 ? ` of ${formatCount(this.total())}` : '') + ' ' + statusWords(status))
        .join(', ');
  }

  title(implementation, grid) {
    const lines = [`${implementation} on ${grid}: ${
        this.inOrder().map(([status, count]) => `${count} ${statusWords(status)}`).join(', ')}`];
    if (this.worst) {
      const {where, of} = trialTitle(this.worstTrial);
      lines.push(
          `largest ratio ${formatRatio(this.worst.ratio)}: ${this.worst.name} of ${where} ${of}`);
    }
    return lines.join('\n');
  }
}

/// Collects cells by implementation and grid, in the order of the report; for a dead run also the
/// cell of the trial that it died in.
function overviewCells({report, begun}) {
  const cells = new Map();
  const grids = new Set();
  const cellOf = (implementation, grid) => {
    grids.add(grid);
    if (!cells.has(implementation)) cells.set(implementation, new Map());
    const row = cells.get(implementation);
    if (!row.has(grid)) row.set(grid, new OverviewCell());
    return row.get(grid);
  };
  for (const trial of report.trials) cellOf(trial.implementation, gridText(trial.grid)).add(trial);
  if (begun && begunKind(begun) === 'a trial') {
    const [, grid, implementation] = begun.id.split('|');
    cellOf(implementation, grid).begun = true;
  }
  return {cells, grids: [...grids]};
}

/// Draws the overview. It calls `onpick({implementation, grid})`, or onpick(null) when the chosen
/// cell is clicked again.
function drawOverview(page, onpick) {
  const {cells, grids} = overviewCells(page);
  const buttons = [];
  const press = (place) => {
    for (const {button, implementation, grid} of buttons) {
      const chosen = place?.implementation === implementation && place.grid === grid;
      button.setAttribute('aria-pressed', String(chosen));
    }
  };
  const cellButton = (cell, implementation, grid) => {
    const {glyph, text, kind} = cell.face();
    const note = cell.note();
    const button = element(
        'button', {
          type: 'button',
          class: 'overview-cell ' + kind,
          title: cell.title(implementation, grid),
          'aria-pressed': 'false',
          onclick: () =>
              onpick(button.getAttribute('aria-pressed') === 'true' ? null : {implementation, grid})
        },
        element(
            'span', {class: 'face'},
            element('span', {class: 'glyph', 'aria-hidden': 'true'}, glyph), text),
        note ? element('span', {class: 'overview-note'}, note) : null);
    buttons.push({button, implementation, grid});
    return button;
  };
  const rows = [...cells].map(
      ([implementation, row]) => element(
          'tr', {}, element('th', {scope: 'row', class: 'name'}, breakable(implementation)),
          grids.map(
              (grid) => cellNode(
                  row.has(grid) ? cellButton(row.get(grid), implementation, grid) : '\u2013', grid,
                  row.has(grid) ? null : 'empty'))));
  const table = element(
      'table', {class: 'overview', 'aria-label': 'Worst ratio by implementation and grid'},
      element(
          'thead', {},
          element(
              'tr', {}, element('th', {}),
              grids.map((grid) => element('th', {scope: 'col'}, grid)))),
      element('tbody', {}, rows));
  return {node: fitted(table), press};
}
