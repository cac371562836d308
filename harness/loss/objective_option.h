// SPDX-License-Identifier: Apache-2.0
// `OptionDescription`: one option of an objective as its list of options has it, with the value of
// a case. Refusals, defaults, documentation and the diagnosis are made of it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace lossgrid {

using ObjectiveOptions = std::map<std::string, std::string>;  // values as JSON text

struct OptionDescription {
  std::string name;
  std::string effect;    // of the option, in one or two sentences; Markdown
  std::string upstream;  // frameworks that have it, and its names there; Markdown
  std::string rule;      // "must be above 0": of a number; empty: any
  std::string fallback;  // the default, as JSON text
  std::string value;     // given or by default, as JSON text
  // Values that a user may have meant in the place of another one, as JSON texts: all names of an
  // enumeration, true and false, and of numbers the one that leaves a term out.
  std::vector<std::string> choices;
  std::map<std::string, std::string> frameworks;  // by choice: whose definition it is
};

}  // namespace lossgrid
