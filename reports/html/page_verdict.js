// SPDX-License-Identifier: Apache-2.0
// The first thing to see: whether all is as it should be, how many of what, and of which program on
// which machine.

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

/// `onpick(status)` shows the trials with that status.
function drawVerdict({report, verdict}, onpick) {
  const run = report.run, host = report.environment.host ?? {},
        tool = report.environment.tool ?? {};
  const began = run.started_utc ?? '';
  const took = run.stages_ns ? sum(Object.values(run.stages_ns)) : null;
  document.title = `lossgrid ${run.command} ${run.suite}: ${verdict.text}`;
  document.getElementById('run-title').append([
    run.command, run.suite, began.replace('T', ' ').replace('Z', ' UTC')
  ].filter((text) => text !== '').join(' \u00B7 '));
  const kind = verdict.good ? 'good' : run.status === 'complete' ? 'bad' : 'doubt';
  const glyph = {good: '\u2713', bad: '\u2717', doubt: '!'}[kind];
  const tiles = statusTiles(report.trials, onpick);
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
      element(
          'div', {class: 'banner ' + kind},
          element('span', {class: 'banner-glyph', 'aria-hidden': 'true'}, glyph),
          element('p', {}, verdict.text)),
      element(
          'div', {class: 'strip'}, group('Trials', tiles), group('Timed rows', statusTiles(rows)),
          group('A/B', abTiles), group('Mutation score', score),
          group('Meter', statusTiles(failedMeter)),
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
