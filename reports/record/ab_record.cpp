// SPDX-License-Identifier: Apache-2.0
#include "reports/record/ab_record.h"

namespace lossgrid {

bool AbRecord::is_false_alarm() const {
  return is_self_check() && (verdict == AbVerdict::regressed || verdict == AbVerdict::improved);
}

ExitCode exit_code_of(const std::vector<AbRecord>& records, bool strict) {
  ExitCode code = ExitCode::ok;
  for (const AbRecord& record : records) {
    if (record.is_false_alarm()) {
      code = worst(code, ExitCode::rank_crashed);
    } else if (record.verdict == AbVerdict::regressed) {
      code = worst(code, ExitCode::time_regression);
    } else if (record.verdict == AbVerdict::inconclusive && (strict || record.is_self_check())) {
      code = worst(code, ExitCode::inconclusive);
    }
  }
  return code;
}

}  // namespace lossgrid
