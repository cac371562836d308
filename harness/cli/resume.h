// SPDX-License-Identifier: Apache-2.0
// --resume: finished work of an earlier run of the same command by the same build.
#pragma once

#include <string>

#include "harness/runner/job/finished_work.h"
#include "reports/file/report_writer.h"

namespace lossgrid {

/// Reads the report at `path`, or the partial file beside it. Throws bad_input if another command
/// or another build made it.
RunRecord read_earlier(const std::string& path, const std::string& command);

/// Returns the finished work in the report at `path`, which only the reporting process reads.
/// Collective: throws bad_input on all processes.
FinishedWork read_finished(const std::string& path, const std::string& command, AfterFailure after,
                           const Ranks& ranks);

/// Returns the command line, for a shell, that continues the run of this process from its `report`.
std::string resume_line(const std::string& report);

/// Writes the finished work to the partial file of the new run, so that another crash does not lose
/// it.
void keep_finished(const FinishedWork& finished, ReportWriter& writer);

}  // namespace lossgrid
