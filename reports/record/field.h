// SPDX-License-Identifier: Apache-2.0
// `Rule`: limits of one field of a record, and its place in a report. Every record has one list of
// its fields, beside it in its header, in the order of reports:
//
//   template <typename A>
//   void fields(A& a, CheckRecord& check) {
//     a.record("check", "One compared tensor.");                    // name of its schema
//     a("compared", check.compared, "Number of compared elements.", {.minimum = 1});
//     a.computed("wrong", !check.passed, "True for an error.");    // written, not read
//   }
//
// The JSON writer (json_writer.h), the reader (json_reader.h), the schema (schema_maker.h) and the
// columns of tables (timing_numbers.h) are visitors of these lists. The members of a record need
// not be those of the report:
//   a.object(key, description, rule, body)           an object with the fields that `body` visits
//   a.object_if(there, key, description, rule, body)      the same, null unless `there`
//   a.computed(key, value, read, description, rule)  `read(value)` takes what a reader finds
#pragma once

#include <optional>

#include "reports/record/column.h"

namespace lossgrid {

/// Limits of values hold for each element of a list and each value of a map.
struct Rule {
  std::optional<int> minimum = 0;  // of numbers; nullopt: no limit
  std::optional<int> maximum = {};
  bool positive = false;          // greater than 0, instead of `minimum`
  bool nonempty = false;          // of texts
  const char* pattern = nullptr;  // regular expression of texts
  const char* one_of = nullptr;   // all values, with blanks between them
  int min_items = 0;              // of lists
  int max_items = 0;              // of lists; 0: no limit

  // null stands for an empty text and for an integer below `minimum`. (Numbers that are not finite
  // are always written as null; this allows it in the schema.)
  bool null = false;
  bool infinite = false;  // null reads as infinity, not as NaN
  bool left_out = false;  // not written; a key that a default record leaves out may be absent
  const char* unless = nullptr;  // key that may stand instead of this one in the compact form

  // JSON of the value that the compact form leaves out and has in "defaults" of the report.
  const char* usual = nullptr;
  bool shared = false;  // the compact form may have it, or its elements, in "shared" of the report
  bool varies = false;  // differs between two runs of the same thing

  Column column = {};  // of a number of a timing row
};

}  // namespace lossgrid
