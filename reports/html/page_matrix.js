// SPDX-License-Identifier: Apache-2.0
// Trials against checks, to filter and sort. Grids of a case can be folded to one row.

/// A row of the table: one trial, or those of a case and implementation on all grids.
class MatrixRow {
  constructor(trials) {
    this.trials = trials;
    this.status = largest(trials, (trial) => statusRank(trial.status)).status;
    this.reason = trials.find((trial) => trial.status === this.status).reason;
    this.case = caseText(trials[0]);
    this.name = trials[0].case.name;
    this.grids = unique(trials.map((trial) => gridText(trial.grid)));
    this.implementation = trials[0].implementation;
    this.text = [
      this.case, this.name, this.implementation,
      unique(trials.map((trial) => trial.status)).join(' '), this.grids.join(' '),
      unique(trials.map((trial) => trial.reason)).join(' '),
      unique(trials.map((trial) => trial.backend)).join(' ')
    ].join(' ');
    this.worst = new Map();  // by column
  }

  /// The worst check that `belongs`, with its trial: {check, trial, count}; null without any.
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

function drawMatrix({report}) {
  if (report.trials.length === 0) return null;
  const trials = report.trials;
  const node = section(
      'trials', 'Trials and checks',
      'Ratio = error / bound of the worst element: right up to 1. Hover over a cell for that ' +
          'element; open a row for all of the trial.');
  const state = {search: '', status: '', folded: false};
  const table = new DataTable(
      matrixColumns(trials, false), {detail: rowDetail, caption: 'Trials and checks'});
  const count = element('output', {class: 'count'});
  const made = new Map();
  const rowsOf = (folded) => {  // what is worst first, else as in the report
    if (!made.has(folded)) {
      const groups = folded ?
          [...groupBy(
               trials, (trial) => [caseText(trial), trial.implementation, trial.backend].join('|'))
               .values()] :
          trials.map((trial) => [trial]);
      const rows = groups.map((group) => new MatrixRow(group));
      made.set(
          folded,
          rows.sort(
              (a, b) => (statusOf(b.status).kind === 'bad') - (statusOf(a.status).kind === 'bad')));
    }
    return made.get(folded);
  };
  const update = () => {
    const all = rowsOf(state.folded);
    const shown = all.filter(
        (row) =>
            (state.status === '' || row.trials.some((trial) => trial.status === state.status)) &&
            matches(row.text, state.search));
    count.textContent = `${formatCount(shown.length)} of ${plural(all.length, 'row')}`;
    table.setRows(shown);
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
  node.append(
      element(
          'div', {class: 'toolbar'},
          searchField(
              'Filter',
              (value) => {
                state.search = value;
                update();
              }),
          statusChoice,
          checkbox(
              'fold grids', false,
              (value) => {
                state.folded = value;
                update();
              }),
          checkbox(
              'every check apart', false,
              (value) => {
                table.setColumns(matrixColumns(trials, value));
                update();
              }),
          count),
      table.node,
      element(
          'p', {class: 'legend'}, element('span', {class: 'ratio fine sample'}, '\u2713 up to 0.5'),
          element('span', {class: 'ratio near sample'}, '\u25D5 up to 1'),
          element('span', {class: 'ratio bad sample'}, '\u2717 beyond the bound'),
          ' \u2013 not compared. Bars: 0.0001 to 1, logarithmic.'));
  update();
  node.showStatus = (status) => {
    state.status = status;
    statusChoice.querySelector('select').value = status;
    update();
    node.scrollIntoView();
  };
  return node;
}
