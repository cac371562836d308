// SPDX-License-Identifier: Apache-2.0
// --resume: what an earlier run of the same command by the same build has finished.
#pragma once

#include <string>

#include "harness/runner/finished_work.h"
#include "reports/record/report_writer.h"

namespace lossgrid {

/// The report at `path`, or what stands beside it in its partial file. Throws bad_input when
/// another command or another build made it.
RunRecord read_earlier(const std::string& path, const std::string& command);

/// What it has finished. Only the process that reports reads it; collective. Throws bad_input on
/// all of them.
FinishedWork read_finished(const std::string& path, const std::string& command, AfterFailure after,
                           const Ranks& ranks);

/// The command line that goes on where this process ended, as a shell reads it; `report` is what it
/// left.
std::string resume_line(const std::string& report);

/// Puts it into the partial file of the new run first, so that another crash loses nothing of it.
void keep_finished(const FinishedWork& finished, ReportWriter& writer);

}  // namespace lossgrid
