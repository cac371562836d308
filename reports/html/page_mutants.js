// SPDX-License-Identifier: Apache-2.0
// Mutation score: every wrong implementation with the checks that rejected it, and the right ones
// that a suite must not reject. Wrong verdicts come first.

function mutantVerdict(mutant) {
  if (mutant.trials === 0) return 'not_run';
  if (mutant.is_control) return mutant.rejected ? 'wrongly rejected' : 'accepted';
  return mutant.rejected ? 'rejected' : 'survived';
}

const rejectedBy = (mutant) =>
    (mutant.rejected_by ? `${mutant.rejected_by.checks.join(', ')} of ${mutant.rejected_by.case}, ${
                              mutant.rejected_by.grid}` :
                          '');

const MUTANT_COLUMNS = [
  {
    title: 'verdict',
    cell: (mutant) => statusBadge(mutantVerdict(mutant)),
    value: (mutant) => -statusRank(mutantVerdict(mutant))
  },
  {
    title: 'id',
    cell: (mutant) => mutant.catalogue_id ?? '',
    value: (mutant) => mutant.catalogue_id
  },
  {
    title: 'name',
    kind: 'name',
    cell: (mutant) => nameCell(mutant.name),
    value: (mutant) => mutant.name
  },
  {
    title: 'what is wrong, or done another way',
    cell: (mutant) => element('td', {class: 'wrap'}, mutant.what),
    value: (mutant) => mutant.what
  },
  {
    title: 'rejected by',
    cell: (mutant) => element('td', {class: 'wrap'}, rejectedBy(mutant)),
    value: rejectedBy
  },
  {
    title: 'trials',
    kind: 'number',
    cell: (mutant) => formatCount(mutant.trials),
    value: (mutant) => mutant.trials
  },
];

function scoreBar(part, whole, label) {
  const share = whole > 0 ? part / whole : 0;
  const percent = Math.floor(1000 * share) / 10;  // only all of them are 100 %
  return element(
      'div', {class: 'score'},
      element('p', {}, element('b', {}, `${part} of ${whole} `), `${label} (${percent} %)`),
      element('div', {class: 'bar', '--fill': 100 * share + '%'}));
}

function drawMutants({report}) {
  if (!report.mutants) return null;
  const node = section(
      'mutants', 'Mutation score',
      'A suite is as good as the share of wrong implementations that it rejects. Open a row ' +
          'for the command that shows a mutant again.');
  const isWrong = (mutant) => isBad(mutantVerdict(mutant));
  const ordered = [...report.mutants].sort((a, b) => isWrong(b) - isWrong(a));
  const state = {search: '', wrong: false};
  const table = new DataTable(MUTANT_COLUMNS, {
    caption: 'Mutants',
    detail: (mutant) =>
        (mutant.reproduce ? commandLine(mutant.reproduce) :
                            element('p', {}, `No trial rejected it. ${mutant.reason ?? ''}`))
  });
  const count = element('output', {class: 'count'});
  const update = () => {
    const shown = ordered.filter(
        (mutant) => (!state.wrong || isWrong(mutant)) &&
            matches(
                        [
                          mutant.name, mutant.catalogue_id, mutant.what, rejectedBy(mutant),
                          mutantVerdict(mutant)
                        ].join(' '),
                        state.search));
    count.textContent = `${formatCount(shown.length)} of ${plural(ordered.length, 'row')}`;
    table.setRows(shown);
  };
  const score = report.score;
  node.append(
      element(
          'div', {class: 'scores'}, scoreBar(score.rejected, score.total, 'mutants rejected'),
          score.controls_total > 0 ?
              scoreBar(score.controls_accepted, score.controls_total, 'controls accepted') :
              null),
      element('div', {class: 'toolbar'}, searchField('Filter', (value) => {
                state.search = value;
                update();
              }), checkbox('only what is not as it should be', false, (value) => {
                state.wrong = value;
                update();
              }), count), table.node);
  update();
  return node;
}
