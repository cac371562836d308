// SPDX-License-Identifier: Apache-2.0
// Data of the page: they are embedded packed; only this file unpacks and parses them.

async function unpack(id) {
  const text = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; ++k) bytes[k] = text.charCodeAt(k);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip')))
      .text();
}

/// Returns {report, verdict, history, search, begun, planned, number_columns}.
const readPage = async () => ({
  report: expandReport(JSON.parse(await unpack('report-data'))),
  ...JSON.parse(await unpack('context-data'))
});

/// Unpacks the text of the report again: a large one does not stay in memory for a button.
function offerDownload() {
  document.getElementById('download').addEventListener('click', async () => {
    const text = await unpack('report-data');
    const address = URL.createObjectURL(new Blob([text], {type: 'application/json'}));
    element('a', {href: address, download: 'report.json'}).click();
    setTimeout(() => URL.revokeObjectURL(address), 60000);
  });
}
