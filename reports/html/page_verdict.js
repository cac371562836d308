// SPDX-License-Identifier: Apache-2.0
// Head of the page: the verdict, the problems and the command lines that reproduce them, counts,
// the program and the machine.

function tile(label, value, about) {
  return element(
      'div', {class: 'tile', title: about}, element('span', {class: 'tile-value'}, value),
      element('span', {class: 'tile-label'}, label));
}

function statusTiles(items, onpick) {
  const counts = groupBy(items, (item) => item.status);
  return [...counts].sort(([a], [b]) => statusRank(b) - statusRank(a)).map(([status, some]) => {
    const content = [
      element('span', {class: 'tile-value'}, formatCount(some.length)),
      element('span', {class: 'tile-label'}, statusBadge(status))
    ];
    return onpick ? element(
                        'button', {
                          type: 'button',
                          class: 'tile',
                          title: 'show only these',
                          onclick: () => onpick(status)
                        },
                        content) :
                    element('div', {class: 'tile'}, content);
  });
}

/// True if the run died before it wrote its end.
const isDead = (run) => run.status !== 'complete' && run.exit_code === 0;

const wasReached = (trial) => trial.status !== 'not_run';

/// "The run died in the middle of a trial: 25 of 192 planned trials were done"
function deathInWords({report, begun, planned}) {
  const done = report.trials.filter(wasReached).length;
  const counted = (count, all, noun) =>
      (all === undefined ? `${plural(count, noun)} done` :
                           `${formatCount(count)} of ${plural(all, 'planned ' + noun)} done`);
  const parts = [];
  if (!planned || planned.trials > 0) parts.push(counted(done, planned?.trials, 'trial'));
  if (planned?.timings > 0) parts.push(counted(report.timings.length, planned.timings, 'timing'));
  return `The run died in the middle${begun ? ' of ' + begunKind(begun) : ''}: ` + parts.join(', ');
}

/// Returns the kind of the work that a dead run had begun, with the id
/// CASE|GRID|IMPLEMENTATION|BACKEND of a trial, CASE|GRID|CACHE|BACKEND of a timing; only a trial
/// has a command line that runs it again.
const begunKind = (begun) => (begun.reproduce ? 'a trial' : 'a timing');

function begunTitle(begun) {
  const [text, grid, what] = begun.id.split('|');
  return {where: `${what} on ${grid}`, of: `(${text})`};
}

function finding(label, {where, of}, words, reproduce) {
  return element(
      'div', {class: 'finding'}, element('p', {class: 'finding-label'}, label),
      element(
          'p', {}, element('b', {}, where), ' ', element('span', {class: 'dim'}, of),
          words ? element('span', {class: 'words'}, words) : null),
      reproduce ? commandLine(reproduce) : null);
}

/// Lists the trial in which a run died, the first problem and the worst one, with the command lines
/// that reproduce them.
function findings({begun}, groups) {
  const shown = [];
  if (begun) {
    shown.push(
        finding('In progress', begunTitle(begun), 'It ran when the run died.', begun.reproduce));
  }
  for (const {wrong} of groups.slice(0, 1)) {
    const first = wrong[0], worst = worstProblem(wrong);
    const add = (label, problem, reproduce) =>
        shown.push(finding(label, problem.title(), problem.words(), reproduce));
    if (first !== worst) add('First', first, null);
    const both = wrong.length === 1 ? 'What broke' : 'First and worst';
    add(first === worst ? both : 'Worst', worst, worst.reproduce);
  }
  return shown;
}

/// Returns a line for every output of a loaded function of which a part was not compared.
function unjudgedLines(report) {
  return (report.tables?.unjudged_outputs ?? [])
      .map(({implementation, output, state}) => `${implementation}: ${output}: ${state}`);
}

function drawBanner(page) {
  const {report, verdict} = page;
  const run = report.run;
  const groups = problemGroups(report);
  const isWrong = groups.length > 0 || page.begun || (run.status === 'complete' && !verdict.good);
  const kind = isWrong ? 'bad' : verdict.good ? 'good' : 'doubt';
  const lines = groups.map(countInWords);
  if (isDead(run)) lines.unshift(deathInWords(page));
  document.title = `lossgrid ${run.command} ${run.suite}: ${visible(lines[0] ?? verdict.text)}`;
  return element(
      'div', {class: 'banner ' + kind},
      element(
          'span', {class: 'banner-glyph', 'aria-hidden': 'true'},
          {good: '\u2713', bad: '\u2717', doubt: '!'}[kind]),
      element(
          'div', {class: 'banner-text'},
          lines.map((line) => element('p', {class: 'headline'}, line)),
          element('p', {class: lines.length > 0 ? 'outcome' : 'headline'}, verdict.text),
          unjudgedLines(report).map((line) => element('p', {class: 'outcome'}, line)),
          findings(page, groups)));
}

/// Draws the verdict. `onpick(status)` shows the trials with that status.
function drawVerdict(page, onpick) {
  const {report} = page;
  const run = report.run, host = report.environment.host ?? {},
        tool = report.environment.tool ?? {};
  const began = run.started_utc ?? '';
  const took = run.stages_ns ? sum(Object.values(run.stages_ns)) : null;
  document.getElementById('run-title').append(visible([
    run.command, run.suite, began.replace('T', ' ').replace('Z', ' UTC')
  ].filter((text) => text !== '').join(' \u00B7 ')));
  const group = (title, content) =>
      (content.length > 0 ? element(
                                'div', {role: 'group', 'aria-label': title},
                                element('p', {class: 'tiles-title'}, title),
                                element('div', {class: 'tiles'}, content)) :
                            null);
  const rows =
      report.timings.flatMap((timing) => (timing.rows.length > 0 ? timing.rows : [timing]));
  const abTiles = statusTiles((report.ab ?? []).map((record) => ({status: record.verdict})));
  const score = report.score ?
      [
        tile('mutants rejected', `${report.score.rejected} / ${report.score.total}`),
        tile(
            'controls accepted',
            `${report.score.controls_accepted} / ${report.score.controls_total}`)
      ] :
      [];
  const failedMeter = report.meter.filter((check) => !check.passed)
                          .map((check) => ({status: 'failed', name: check.name}));
  document.getElementById('verdict').append(
      drawBanner(page),
      element(
          'div', {class: 'strip'}, group('Trials', statusTiles(report.trials, onpick)),
          group('Timed rows', statusTiles(rows)), group('A/B', abTiles),
          group('Mutation score', score), group('Meter', statusTiles(failedMeter)),
          group(
              'Program',
              [
                tool.git_revision ? tile('revision', tool.git_revision) : null,
                tool.build_type ? tile('build', tool.build_type) : null
              ].filter(Boolean)),
          group('Machine', [
            host.cpu_model ? tile(plural(host.cpus ?? 0, 'cpu'), host.cpu_model) : null,
            took ? tile('wall time', formatTime(took)) : null
          ].filter(Boolean))));
}
