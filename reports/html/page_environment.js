// SPDX-License-Identifier: Apache-2.0
// Origin of the numbers: command line, program, machine, checks of the meter, and time by stage.

function factsTable(title, facts) {
  const rows = Object.entries(facts).filter(([, value]) => value !== '' && value !== null);
  return rows.length > 0 ? block(
                               title,
                               plainTable(
                                   ['what', 'value'],
                                   rows.map(
                                       ([key, value]) =>
                                           [statusWords(key),
                                            key.endsWith('_bytes')        ? formatBytes(value) :
                                                typeof value === 'object' ? JSON.stringify(value) :
                                                                            String(value)]))) :
                           null;
}

function meterTable(report) {
  return tableOf(
      report.meter, ['check', '', 'expected', 'measured', 'unit', 'detail'],
      (check) =>
          [check.name, statusBadge(check.passed ? 'passed' : 'failed'),
           formatNumber(check.expected), formatNumber(check.measured), check.unit, check.detail]);
}

function drawEnvironment({report}) {
  const run = report.run;
  const node = section('environment', 'Environment');
  const stages = run.stages_ns ?
      Object.fromEntries(
          Object.entries(run.stages_ns).map(([stage, ns]) => [stage, formatTime(ns)])) :
      {};
  node.append(
      commandLine(
          'lossgrid ' +
          run.arguments
              .map(
                  (word) =>
                      (/[^\w.,:=/+-]/.test(word) ? '\'' + word.replaceAll('\'', '\'\\\'\'') + '\'' :
                                                   word))
              .join(' ')),
      element(
          'div', {class: 'blocks'}, factsTable('Run', {
            command: run.command,
            suite: run.suite,
            started: run.started_utc,
            ended: run.ended_utc,
            status: run.status,
            exit_code: run.exit_code,
            format: report.schema
          }),
          Object.entries(report.environment)
              .map(
                  ([title, facts]) =>
                      factsTable(title.slice(0, 1).toUpperCase() + title.slice(1), facts ?? {})),
          factsTable('Time by stage', stages),
          block('Meter: what is known beforehand, measured', meterTable(report))));
  return node;
}
