// SPDX-License-Identifier: Apache-2.0
// Metadata of a bundle: its format, objective, counts and expected metrics. Internal to read_bundle
// and write_bundle. Every function that reads throws bad_input with one line that names file, key
// and rule.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/problem/bundle/safetensors.h"
#include "harness/problem/case/case_spec.h"

namespace lossgrid {

/// Throws if `name` is not in `known` but close to a known name: a file may hold further tensors
/// and keys, but a misspelt optional name would silently change results. `what` begins the message.
void refuse_misspelt(const std::string& what, const std::string& name,
                     const std::vector<std::string>& known);

/// Checks the format's name, and that no name of a key or tensor is a misspelt known one.
void check_bundle_format(const SafetensorsFile& file);

/// Reads the kind of the objective and all its options.
ObjectiveSpec read_bundle_objective(const SafetensorsFile& file);

/// Reads logit_scale, logit_softcap and temperature of the transform; the defaults if the transform
/// is absent.
void read_transform(const SafetensorsFile& file, CaseSpec& spec);

/// Reads the head; lm if it is absent. Throws for another head with a vocabulary (spec.vocab).
void read_head(const SafetensorsFile& file, CaseSpec& spec);

/// Reads the treatment of targets outside of a sampling mask; drop if it is absent.
void read_filtered_targets(const SafetensorsFile& file, CaseSpec& spec);

/// Returns the transform as JSON text; "" if it changes nothing.
std::string transform_text(const CaseSpec& spec);

/// Reads global_valid_toks or global_valid_seqs, counts of the global batch; 0 if the key is
/// absent. Throws if the count is less than `counted`, the count of this batch.
std::int64_t read_global_count(const SafetensorsFile& file, const char* key, std::int64_t counted);

/// Reads pad_multiple or bin_multiple, multiples in addition to those of the grid; 1 if the key is
/// absent.
std::int64_t read_multiple(const SafetensorsFile& file, const char* key);

/// Returns the objective as JSON text.
std::string objective_text(const ObjectiveSpec& objective);

/// Reads expected_metrics, without metrics that have no value; empty if the key is absent.
std::map<std::string, double> read_expected_metrics(const SafetensorsFile& file);

}  // namespace lossgrid
