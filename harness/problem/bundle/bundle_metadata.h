// SPDX-License-Identifier: Apache-2.0
// Internal to read_bundle: what the metadata of a bundle says, and whether the file is one. Every
// function throws bad_input with one line that names file, key and rule.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/problem/bundle/safetensors.h"
#include "harness/problem/case/case_spec.h"

namespace lossgrid {

/// Throws when `name` is not in `known` but close to one of them: a file may hold more than the
/// format says, but a misspelt optional name would change results without a word. `what` begins the
/// message.
void refuse_misspelt(const std::string& what, const std::string& name,
                     const std::vector<std::string>& known);

/// Checks the format's name, and that no name of a key or tensor is a misspelt known one.
void check_bundle_format(const SafetensorsFile& file);

/// kind and every option.
ObjectiveSpec read_bundle_objective(const SafetensorsFile& file);

/// global_valid_toks or global_valid_seqs: of the global batch, which is never less than what this
/// batch counts; 0 when the key is absent.
std::int64_t read_global_count(const SafetensorsFile& file, const char* key, std::int64_t counted);

/// pad_multiple or bin_multiple: of the padded pack, beside what the grid needs; 1 when the key is
/// absent.
std::int64_t read_multiple(const SafetensorsFile& file, const char* key);

/// The objective as JSON text.
std::string objective_text(const ObjectiveSpec& objective);

/// expected_metrics without those that have no value; empty when the key is absent.
std::map<std::string, double> read_expected_metrics(const SafetensorsFile& file);

}  // namespace lossgrid
