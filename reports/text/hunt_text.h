// SPDX-License-Identifier: Apache-2.0
// Text of a hunt for people: its counts, the coverage of pairs of settings, and what failed, by
// cause, with the smallest trial of each.
#pragma once

#include <string>

#include "harness/core/process/terminal.h"
#include "reports/record/hunt_record.h"

namespace lossgrid {

/// Returns "hunt: seed 7, 1200 cases, ..." and, with causes, a paragraph for each of them.
std::string format_hunt(const HuntRecord& hunt, const TextStyle& style = {});

/// Returns the table of pairs: those that decided of those drawn, by kind of both settings.
std::string format_pairs(const HuntRecord& hunt, const TextStyle& style = {});

}  // namespace lossgrid
