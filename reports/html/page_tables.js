// SPDX-License-Identifier: Apache-2.0
// Tables over several trials: the error of d weight by chunks, and peak memory beside that of the
// implementation that computes all logits at once.

const CHUNK_COLUMNS = [
  {title: 'case', kind: 'name', cell: (row) => nameCell(row.case), value: (row) => row.case},
  {
    title: 'chunks',
    kind: 'number',
    cell: (row) => formatCount(row.chunks),
    value: (row) => row.chunks
  },
  {
    title: 'implementation',
    cell: (row) => nameCell(row.implementation),
    value: (row) => row.implementation
  },
  {
    title: 'relative l2',
    kind: 'number',
    cell: (row) => (row.relative_l2 === null ? 'nan' : row.relative_l2.toExponential(2)),
    value: (row) => row.relative_l2
  },
  {
    title: 'ratio',
    kind: 'number',
    cell: (row) => formatRatio(row.ratio),
    value: (row) => comparable(row.ratio)
  },
];

const PEAK_COLUMNS = [
  {title: 'case', kind: 'name', cell: (row) => nameCell(row.case), value: (row) => row.case},
  {title: 'grid', cell: (row) => row.grid, value: (row) => row.grid},
  {
    title: 'implementation',
    cell: (row) => nameCell(row.implementation),
    value: (row) => row.implementation
  },
  {
    title: 'measured',
    kind: 'number',
    cell: (row) => formatBytes(row.measured_bytes),
    value: (row) => row.measured_bytes
  },
  {
    title: 'predicted',
    kind: 'number',
    cell: (row) => formatBytes(row.predicted_bytes),
    value: (row) => row.predicted_bytes
  },
  {
    title: 'ratio',
    kind: 'number',
    cell: (row) => known(row.measured_ratio, (ratio) => ratio.toFixed(3)),
    value: (row) => row.measured_ratio
  },
  {
    title: 'predicted ratio',
    kind: 'number',
    cell: (row) => known(row.predicted_ratio, (ratio) => ratio.toFixed(3)),
    value: (row) => row.predicted_ratio
  },
];

function tableSection(id, title, note, columns, rows) {
  if (rows.length === 0) return null;
  const node = section(id, title, note);
  const table = new DataTable(columns, {caption: title});
  node.append(table.node);
  table.setRows(rows);
  return node;
}

const drawChunkErrors = ({report}) => tableSection(
    'chunks', 'Error of d weight by chunks',
    '|error| / |truth|: an error that grows with the number of chunks is one of accumulating.',
    CHUNK_COLUMNS, report.tables.grad_weight_error_by_chunks);
const drawPeakRatios = ({report}) => tableSection(
    'peaks', 'Peak memory beside linear_materialized',
    'Without inputs; ratios to what makes all logits at once, measured and predicted.',
    PEAK_COLUMNS, report.tables.peak_memory);
