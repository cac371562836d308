// SPDX-License-Identifier: Apache-2.0
// `OptionDescription`: an option of an objective in its list of options, with the value in a case.
// Refusals, defaults, documentation and the diagnosis are made from it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace lossgrid {

using ObjectiveOptions = std::map<std::string, std::string>;  // values as JSON text

struct OptionDescription {
  std::string name;
  std::string effect;    // effect of the option in one or two sentences; Markdown
  std::string upstream;  // frameworks with this option, and its names there; Markdown
  std::string rule;      // rule for a number, "must be above 0"; empty: any number
  std::string fallback;  // the default, as JSON text
  std::string value;     // given or by default, as JSON text
  // Values that a user may have meant instead, as JSON texts: all names of an enumeration, true and
  // false, or the number that leaves a term out.
  std::vector<std::string> choices;
  // Values to draw, as JSON texts: all names, true and false, or numbers far enough from the
  // default to decide. A value that the other options of a case exclude is among them.
  std::vector<std::string> draws;
  std::map<std::string, std::string> frameworks;  // frameworks with this definition, by choice
};

}  // namespace lossgrid
