// SPDX-License-Identifier: Apache-2.0
// Check of JSON exports against the schemas beside the tests, with Python's jsonschema.
#pragma once

#include <gtest/gtest.h>

#include "export_runs.h"
#include "harness/core/file.h"
#include "shell.h"

namespace lossgrid {

/// Exports every run in `format` and checks it against `schema`.
inline void expect_schema(const std::string& format, const std::string& schema) {
  const TemporaryFolder folder;
  for (const auto& [what, run] : export_runs()) {
    const std::string path = folder.file("export.json");
    write_file_atomically(path, exported(format, run));
    const ShellOutcome outcome =
        run_shell("/usr/bin/python3 -W ignore -m jsonschema -i " + path +
                  " " LOSSGRID_SOURCE_DIR "/tests/reports/exports/" + schema);
    EXPECT_EQ(outcome.exit_code, 0) << what << ": " << outcome.output;
  }
}

}  // namespace lossgrid
