// SPDX-License-Identifier: Apache-2.0
// Matrix of trials and checks, to filter and sort, below a summary. Grids of a case can be folded
// to one row.

/// Row of the table: one trial, or the trials of a case and implementation on all grids.
class MatrixRow {
  constructor(trials) {
    this.trials = trials;
    this.status = largest(trials, (trial) => statusRank(trial.status)).status;
    this.reason = trials.find((trial) => trial.status === this.status).reason;
    this.case = caseText(trials[0]);
    this.name = trials[0].case.name;
    this.grids = unique(trials.map((trial) => gridText(trial.grid)));
    this.implementation = trials[0].implementation;
    this.worst = new Map();  // by column
  }

  /// Returns the text that a search goes through.
  text() {
    const all = (valueOf) => unique(this.trials.map(valueOf)).join(' ');
    return [
      this.case, this.name, this.implementation, this.grids.join(' '), all((trial) => trial.status),
      all((trial) => trial.reason), all((trial) => trial.backend)
    ].join(' ');
  }

  stands(place) {
    return this.implementation === place.implementation && this.grids.includes(place.grid);
  }

  /// Returns the worst check that `belongs`, with its trial: {check, trial, count}; null without
  /// any.
  worstCheck(column, belongs) {
    if (!this.worst.has(column)) {
      const found = this.trials.flatMap(
          (trial) => trial.checks.filter(belongs).map((check) => ({check, trial})));
      const worst = largest(found, ({check}) => severity(check));
      this.worst.set(column, worst && {...worst, count: found.length});
    }
    return this.worst.get(column);
  }
}

function rowDetail(row) {
  if (row.trials.length === 1) return trialDetail(row.trials[0]);
  return element(
      'div', {},
      row.trials.map(
          (trial) => element(
              'details', {},
              element(
                  'summary', {}, statusBadge(trial.status),
                  ' ' + gridText(trial.grid) + (trial.reason ? ': ' + trial.reason : '')),
              trialDetail(trial))));
}

/// Orders hangs and crashes before failures, then all others as in the report.
const badFirst = (rows) => {
  const rank = (row) => (isBad(row.status) ? statusRank(row.status) : 0);
  return rows.sort((a, b) => rank(b) - rank(a));
};

/// Makes rows of single trials, or of all grids of a case and implementation, once.
function matrixRows(trials) {
  const made = new Map();
  return (folded) => {
    if (!made.has(folded)) {
      const groups = folded ?
          [...groupBy(
               trials, (trial) => [caseText(trial), trial.implementation, trial.backend].join('|'))
               .values()] :
          trials.map((trial) => [trial]);
      made.set(folded, badFirst(groups.map((group) => new MatrixRow(group))));
    }
    return made.get(folded);
  };
}

const matrixLegend = () => element(
    'p', {class: 'legend'}, element('span', {class: 'ratio fine sample'}, '\u2713 up to 0.5'),
    element('span', {class: 'ratio near sample'}, '\u25D5 up to 1'),
    element('span', {class: 'ratio bad sample'}, '\u2717 beyond the bound'),
    element('span', {class: 'halted sample'}, '\u25D4 \u2020 hung, crashed'),
    ' \u2013 not compared. Bars: 0.0001 to 1, logarithmic.');

function drawMatrix(page) {
  const trials = page.report.trials;
  if (trials.length === 0 && !page.begun) return null;
  const node = section(
      'trials', 'Trials and checks',
      'Ratio = error / bound of the worst element: right up to 1. First the worst of all cases; ' +
          'a click shows the trials of a cell, a second one all of them again.');
  const state = {search: '', status: '', folded: false, place: null};
  const table = new DataTable(
      matrixColumns(trials, false), {detail: rowDetail, caption: 'Trials and checks'});
  const count = element('output', {class: 'count'});
  const rowsOf = matrixRows(trials);
  const update = () => {
    const all = rowsOf(state.folded);
    const shown = all.filter(
        (row) =>
            (state.status === '' || row.trials.some((trial) => trial.status === state.status)) &&
            (state.place === null || row.stands(state.place)) &&
            (state.search.trim() === '' || matches(row.text(), state.search)));
    count.textContent = `${formatCount(shown.length)} of ${plural(all.length, 'row')}`;
    table.setRows(shown);
  };
  const chosen = element('span');
  const overview = drawOverview(page, (place) => showPlace(place));
  const showPlace = (place) => {
    state.place = place;
    overview.press(place);
    chosen.replaceChildren(
        place ? element(
                    'button', {type: 'button', class: 'chosen', onclick: () => showPlace(null)},
                    `only ${place.implementation} on ${place.grid} \u2715`) :
                '');
    update();
  };
  const statuses = unique(trials.map((trial) => trial.status));
  const statusChoice = choice(
      'Status',
      [
        {value: '', label: 'all'},
        ...statuses.map((status) => ({value: status, label: statusWords(status)}))
      ],
      '', (value) => {
        state.status = value;
        update();
      });
  const toolbar = element('div', {class: 'toolbar'}, searchField('Filter', (value) => {
                            state.search = value;
                            update();
                          }), statusChoice, checkbox('fold grids', false, (value) => {
                            state.folded = value;
                            update();
                          }), checkbox('every check apart', false, (value) => {
                            table.setColumns(matrixColumns(trials, value));
                            update();
                          }), count, chosen);
  node.append(overview.node, matrixLegend(), toolbar, table.node);
  update();
  node.showStatus = (status) => {
    state.status = status;
    statusChoice.querySelector('select').value = status;
    update();
    toolbar.scrollIntoView();
  };
  return node;
}
